"""The plugin classes by name: in-tree, from entry points, or passed by the caller.

A plugin is a subclass of `framework.Plugin`. Registration checks the plugin, and an error names it.
Source: `pkg/scheduler/framework/runtime/registry.go`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from scheduler.api import field
from scheduler.config.types import PluginArgs
from scheduler.config.validation import errors_of
from scheduler.framework.failures import PluginSetupError
from scheduler.framework.interface import ArgsWithDefaults, Plugin, ValidatedArgs
from scheduler.runtime.extension_points import check_methods, require_extension_point
from scheduler.runtime.plugin_args import decode_plugin_args

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import msgspec

    from scheduler.framework.handle import Handle

#: The entry point group of plugins in packages: `[project.entry-points."scheduler.plugins"]`.
ENTRY_POINT_GROUP: Final = "scheduler.plugins"


class Registry:
    """Plugin classes by name."""

    def __init__(self, classes: Iterable[type[Plugin]] = ()) -> None:
        self._classes: dict[str, type[Plugin]] = {}
        self._references: dict[str, str] = {}
        for plugin_class in classes:
            self.register(plugin_class)

    def __contains__(self, name: object) -> bool:
        return name in self._classes or name in self._references

    def __iter__(self) -> Iterator[str]:
        return iter({**self._classes, **self._references})

    def classes(self) -> Collection[type[Plugin]]:
        """Return the classes that are imported."""
        return self._classes.values()

    def register(self, plugin_class: type[Plugin]) -> None:
        """Add a plugin class; raises `PluginSetupError` if its name is taken or it is malformed."""
        name = plugin_class.name
        if name in self:
            raise PluginSetupError(f"a plugin named {name} already exists")
        check_methods(plugin_class)  # type: ignore[arg-type] # every class is hashable
        self._classes[name] = plugin_class

    def register_reference(self, name: str, reference: str) -> None:
        """Add a plugin class `module:Class` that is imported when a profile first names it."""
        self._references[name] = reference

    def register_entry_points(self) -> None:
        """Add the plugins of entry points. Raises `PluginSetupError`."""
        for reference in _announced(tuple(sys.path)):
            self.register(load_plugin_class(reference))

    def create(self, name: str, args: object, handle: Handle) -> Plugin:
        """Create a plugin for one profile; raises `PluginSetupError`.

        `args` is an instance of the plugin's `Args`, or a mapping to decode into one, or None for
        the defaults. The arguments are completed and validated with the handle's feature gates.
        An exception of the plugin's `__init__` is reported as an error of the profile.
        """
        if (reference := self._references.get(name)) is not None:
            loaded = load_plugin_class(reference)
            del self._references[name]
            self.register(loaded)
        plugin_class = self._classes.get(name)
        if plugin_class is None:
            raise PluginSetupError(f'plugin "{name}" does not exist')
        try:
            plugin = plugin_class.__new__(plugin_class)
            plugin.handle = handle
            plugin.args = _complete_args(plugin_class, args, handle)
            plugin.__init__()  # type: ignore[misc] # after args and handle, on purpose
        except Exception as error:
            raise PluginSetupError(f'initializing plugin "{name}": {error}') from error
        return plugin


def load_plugin_class(reference: str) -> type[Plugin]:
    """Import the plugin class at `module:Class`; raises `PluginSetupError`."""
    return _checked(_import(reference), reference)


def _import(reference: str) -> object:
    module_name, _, attribute = reference.partition(":")
    if not module_name or not attribute:
        raise PluginSetupError(f'plugin "{reference}": expected module:Class')
    try:
        value: object = importlib.import_module(module_name)
    except Exception as error:
        # A module runs as it is imported, and may raise anything.
        text = f'plugin "{reference}": cannot import: {error}'
        if isinstance(error, ModuleNotFoundError) and _is_part_of(error.name, module_name):
            text += f"; searched: {_folders_searched()}, the installed packages"
        raise PluginSetupError(text) from error
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError as error:
            raise PluginSetupError(
                f'plugin "{reference}": {error}{field.nearest(part, dir(value))}'
            ) from error
    return value


def _is_part_of(missing: str | None, module_name: str) -> bool:
    """True if `missing` is the module itself or a package that it is in."""
    return missing is not None and f"{module_name}.".startswith(f"{missing}.")


def _folders_searched() -> str:
    """Return the folders of modules that are not installed, for an error message."""
    folders = [f"the working directory ({Path.cwd()})"] if "" in sys.path else []
    python_path = os.environ.get("PYTHONPATH", "")
    return ", ".join([*folders, f"PYTHONPATH ({python_path or 'not set'})"])


def _checked(value: object, reference: str) -> type[Plugin]:
    if isinstance(value, type) and issubclass(value, Plugin) and value is not Plugin:
        require_extension_point(value)
        return value
    raise PluginSetupError(
        f'plugin "{reference}": expected a subclass of scheduler.Plugin, got {value!r}'
    )


def _complete_args(
    plugin_class: type[Plugin], args: object, handle: Handle
) -> msgspec.Struct | None:
    """Decode, complete and validate a plugin's arguments; raises `ValueError`."""
    decoded: object = _decoded_args(plugin_class, args)
    if decoded is None:
        return None
    gates = handle.feature_gates
    if isinstance(decoded, ArgsWithDefaults):
        _check_parameters(decoded, "with_defaults", "gates")
        decoded = decoded.with_defaults(gates)
    if isinstance(decoded, ValidatedArgs):
        _check_parameters(decoded, "validate", "path", "gates")
        if errors := _errors(decoded, handle):
            raise ValueError(field.aggregate(errors))
    return cast("msgspec.Struct | None", decoded)


def _errors(args: ValidatedArgs, handle: Handle) -> Sequence[Exception]:
    if isinstance(args, PluginArgs):
        validate = args.validator(handle.version)
        return errors_of(handle.version, validate("", handle.feature_gates))
    return list(args.validate("", handle.feature_gates))


def _check_parameters(args: object, method: str, *names: str) -> None:
    """Raise `ValueError` for a method that cannot be called with these positional arguments."""
    kind = type(args)
    problem = _parameter_problem(kind, method, names)  # type: ignore[arg-type] # it is hashable
    if problem:
        raise ValueError(problem)


@functools.lru_cache(maxsize=1024)  # `inspect` takes longer than most of these methods
def _parameter_problem(kind: type, method: str, names: tuple[str, ...]) -> str:
    """Return the error of a method that cannot be called with these arguments, or an empty text."""
    signature = inspect.signature(getattr(kind, method))
    parameters = [*signature.parameters.values()]
    if inspect.isfunction(inspect.getattr_static(kind, method)):
        signature = signature.replace(parameters=parameters[1:])
    try:
        signature.bind(*names)
    except TypeError:
        own, expected = (
            f"{method}({', '.join(['self', *of])})" for of in (signature.parameters, names)
        )
        return f"{kind.__qualname__}.{own}: expected {expected}"
    return ""


def _decoded_args(plugin_class: type[Plugin], args: object) -> msgspec.Struct | None:
    expected = plugin_class.Args
    if expected is None:
        if args:
            raise ValueError("takes no arguments, but pluginConfig has some")
        return None
    if isinstance(args, expected):
        return args
    if isinstance(args, Mapping):
        args = {key: value for key, value in args.items() if key not in ("apiVersion", "kind")}
    return decode_plugin_args(expected, args or {})


@functools.lru_cache(maxsize=8)
def _announced(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entry points on this path, cached: the search is slower than a whole profile."""
    del path
    entry_points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    return tuple(entry_point.value for entry_point in entry_points)
