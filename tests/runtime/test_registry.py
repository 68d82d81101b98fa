"""Plugins by name: registered, announced by packages, or named as module:Class."""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from pathlib import Path

import msgspec
import pytest

from scheduler.config import DEFAULT_FEATURE_GATES, FeatureGates
from scheduler.framework import Plugin
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.runtime import PluginSetupError, Registry, load_plugin_class
from scheduler.testing import FakeHandle
from tests.runtime.profiles import BINDER, SORT, answering, plugin

HERE = "tests.runtime.test_registry"


class Guard(Plugin):
    async def post_filter(self) -> None: ...  # type: ignore[override]


class Toleration(msgspec.Struct):
    max_seconds: int = 0


class Detailed(Plugin):
    """Arguments with nested types."""

    class Args(msgspec.Struct, frozen=True):
        node_label: str = ""
        tolerations: list[Toleration] | None = None
        by_zone: dict[str, Toleration] = msgspec.field(default_factory=dict)

    args: Args


class Empty(Plugin):
    def quotas(self) -> bool:
        return True


class Fliter(Plugin):
    def fliter(self, state: object, pod: object, node: object) -> None: ...


class Strict(Plugin):
    class Args(msgspec.Struct, forbid_unknown_fields=True):
        size: int = 3


class Limited(Plugin):
    """The arguments have a default and a rule that depend on a feature gate."""

    class Args(msgspec.Struct, frozen=True):
        limit: int = 0

        def with_defaults(self, gates: FeatureGates) -> Limited.Args:
            return Limited.Args(self.limit or (100 if GATE in gates else 10))

        def validate(self, path: str, gates: FeatureGates) -> list[ValueError]:
            greatest = 100 if GATE in gates else 10
            return [ValueError(f"{path}limit: too large")] if self.limit > greatest else []


class Outer:
    class Inner(Plugin):
        name = "example.com/Inner"

        def reserve(self) -> None: ...  # type: ignore[override]


NOT_A_PLUGIN = 7

#: A gate that is on by default.
GATE = "DynamicResourceAllocation"


def handle_with_gates(gates: FeatureGates) -> FakeHandle:
    handle = FakeHandle()
    handle.feature_gates = gates
    return handle


def test_plugins_are_found_by_name() -> None:
    registry = Registry([SORT, BINDER])
    registry.register(Outer.Inner)
    assert list(registry) == ["Sort", "Binder", "example.com/Inner"]
    assert "Sort" in registry
    assert "Inner" not in registry


def test_a_name_is_taken_once() -> None:
    with pytest.raises(PluginSetupError, match=r"^a plugin named Sort already exists$"):
        Registry([SORT, plugin("Sort")])


@pytest.mark.parametrize(("simple", "fast"), [("filter", "filter_nodes"), ("score", "score_nodes")])
def test_two_forms_of_one_rule_are_refused_by_name(simple: str, fast: str) -> None:
    parent = answering("Parent", **{simple: None})
    child = type("Child", (parent,), {fast: lambda self: None})
    with pytest.raises(PluginSetupError) as refusal:
        Registry([child])
    assert str(refusal.value) == (
        f'plugin "Child" defines both {simple} and {fast}: keep one, '
        "the framework derives the other"
    )


def test_a_plugin_that_is_not_registered_does_not_exist() -> None:
    with pytest.raises(PluginSetupError, match=r'^plugin "Nobody" does not exist$'):
        Registry().create("Nobody", None, FakeHandle())


def test_each_profile_gets_an_instance_of_its_own() -> None:
    registry, handle = Registry([Guard]), FakeHandle()
    first, second = (registry.create("Guard", None, handle) for _ in range(2))
    assert first is not second
    assert first.handle is handle
    assert first.args is None


@pytest.mark.parametrize(
    ("args", "size"),
    [
        (None, 3),
        ({}, 3),
        ({"size": 5}, 5),
        ({"apiVersion": "example.com/v1", "kind": "StrictArgs", "size": 5}, 5),
        (Strict.Args(7), 7),
    ],
)
def test_arguments_may_come_decoded_or_as_written(args: object, size: int) -> None:
    made = Registry([Strict]).create("Strict", args, FakeHandle())
    assert made.args == Strict.Args(size)


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("Strict", {"sise": 5}, 'unknown field "sise" (did you mean "size"?)'),
        (
            "Detailed",
            {"nodelabel": "x", "byZone": {"a": {"max": 1}}, "tolerations": [{"maxSecond": 1}]},
            'unknown field "nodelabel" (did you mean "node_label"?), unknown field "byZone.a.max", '
            'unknown field "tolerations[0].maxSecond" (did you mean "max_seconds"?)',
        ),
        ("Detailed", {"nodeLabel": "x", "node_label": "y"}, 'duplicate field "node_label"'),
        ("Detailed", {"nodeLabel": 3}, "Expected `str`, got `int` - at `$.nodeLabel`"),
        ("Strict", [1], "Expected `object`, got `array`"),
        ("Guard", {"size": 5}, "takes no arguments, but pluginConfig has some"),
    ],
)
def test_arguments_that_do_not_fit_name_the_plugin(name: str, args: object, text: str) -> None:
    with pytest.raises(PluginSetupError) as refusal:
        Registry([Strict, Guard, Detailed]).create(name, args, FakeHandle())
    assert str(refusal.value) == f'initializing plugin "{name}": {text}'


@pytest.mark.parametrize(
    "args",
    [
        {"nodeLabel": "x", "tolerations": [{"maxSeconds": 3}], "byZone": {"a": {"maxSeconds": 4}}},
        {
            "node_label": "x",
            "tolerations": [{"max_seconds": 3}],
            "by_zone": {"a": {"maxSeconds": 4}},
        },
    ],
)
def test_arguments_may_be_written_in_camel_case_and_in_snake_case(args: object) -> None:
    made = Registry([Detailed]).create("Detailed", args, FakeHandle())
    assert made.args == Detailed.Args("x", [Toleration(3)], {"a": Toleration(4)})


@pytest.mark.parametrize(
    ("method", "arity", "meant"),
    [
        ("fliter", 4, "filter"),
        ("pre_filterr", 4, "pre_filter"),
        ("postBind", 4, "post_bind"),
        ("PreFilter", 4, "pre_filter"),
        ("filter_node", 4, "filter_nodes"),
        ("event_to_register", 1, "events_to_register"),
        ("EventsToRegister", 1, "events_to_register"),
    ],
)
def test_a_method_that_is_nearly_an_extension_point_is_refused(
    method: str, arity: int, meant: str
) -> None:
    bodies = {1: lambda self: None, 4: lambda self, state, pod, node: None}
    misspelt = type("Misspelt", (Plugin,), {method: bodies[arity], "score": bodies[4]})
    with pytest.raises(PluginSetupError) as refusal:
        Registry([misspelt])
    assert str(refusal.value).startswith(
        f'plugin "Misspelt" defines {method}, which is no extension point (did you mean "{meant}"?)'
    )


def test_a_helper_of_another_form_may_have_a_similar_name() -> None:
    helpers = {"reserved": lambda self, namespace: 0, "_fliter": lambda self, a, b, c: None}
    Registry([answering("Quota", filter=None), type("Other", (Plugin,), helpers)])


def test_a_plugin_without_extension_point_is_refused() -> None:
    with pytest.raises(PluginSetupError) as refusal:
        load_plugin_class(f"{HERE}:Empty")
    assert str(refusal.value).startswith('plugin "Empty" defines no extension point: expected')
    with pytest.raises(PluginSetupError) as refusal:
        load_plugin_class(f"{HERE}:Fliter")
    assert 'defines no extension point (did you mean "filter"?)' in str(refusal.value)


@pytest.mark.parametrize(("gates", "limit"), [(DEFAULT_FEATURE_GATES, 100), (frozenset(), 10)])
def test_defaults_of_arguments_follow_the_feature_gates(gates: FeatureGates, limit: int) -> None:
    made = Registry([Limited]).create("Limited", None, handle_with_gates(gates))
    assert made.args == Limited.Args(limit)


def test_arguments_are_validated_with_the_feature_gates() -> None:
    registry = Registry([Limited])
    registry.create("Limited", {"limit": 50}, handle_with_gates(DEFAULT_FEATURE_GATES))
    with pytest.raises(PluginSetupError) as refusal:
        registry.create("Limited", {"limit": 50}, handle_with_gates(frozenset()))
    assert str(refusal.value) == 'initializing plugin "Limited": limit: too large'


@pytest.mark.parametrize(
    ("method", "parameters", "text"),
    [
        ("validate", lambda self, path: [], "validate(self, path, gates)"),
        ("with_defaults", lambda self: self, "with_defaults(self, gates)"),
    ],
)
def test_a_method_of_arguments_with_other_parameters_is_named(
    method: str, parameters: object, text: str
) -> None:
    args = type("Args", (msgspec.Struct,), {method: parameters})
    with pytest.raises(PluginSetupError) as refusal:
        Registry([plugin("P", Args=args, filter=None)]).create("P", {}, FakeHandle())
    assert str(refusal.value).endswith(f": expected {text}")


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"nodeLabel": 1}, "nodeLabel"),
        ({"node_label": 1}, "node_label"),
        ({"nodeLabel": "x", "tolerations": [{"maxSeconds": "3"}]}, "tolerations[0].maxSeconds"),
    ],
)
def test_a_wrong_type_is_reported_with_the_name_that_the_file_has(args: object, path: str) -> None:
    with pytest.raises(PluginSetupError) as refusal:
        Registry([Detailed]).create("Detailed", args, FakeHandle())
    assert f"at `$.{path}`" in str(refusal.value)


@pytest.mark.parametrize(("gates", "seconds"), [(DEFAULT_FEATURE_GATES, 600), (frozenset(), None)])
def test_in_tree_plugins_hold_completed_arguments(gates: FeatureGates, seconds: int | None) -> None:
    made = Registry([DynamicResources]).create("DynamicResources", {}, handle_with_gates(gates))
    assert isinstance(made.args, DynamicResources.Args)
    timeout = made.args.binding_timeout
    assert (timeout and timeout.seconds) == seconds


@pytest.mark.parametrize("error", [ValueError("too big"), KeyError("x"), RuntimeError("no disk")])
def test_an_exception_of_a_constructor_names_the_plugin(error: Exception) -> None:
    def fail(self: Plugin) -> None:
        raise error

    with pytest.raises(PluginSetupError) as refusal:
        Registry([plugin("Weak", __init__=fail)]).create("Weak", None, FakeHandle())
    assert str(refusal.value) == f'initializing plugin "Weak": {error}'
    assert refusal.value.__cause__ is error


def test_a_class_is_loaded_from_its_module() -> None:
    assert load_plugin_class(f"{HERE}:Guard") is Guard
    assert load_plugin_class(f"{HERE}:Outer.Inner") is Outer.Inner


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("Guard", 'plugin "Guard": expected module:Class'),
        (f"{HERE}:", f'plugin "{HERE}:": expected module:Class'),
        (":Guard", 'plugin ":Guard": expected module:Class'),
        (
            f"{HERE}:Missing",
            f"plugin \"{HERE}:Missing\": module '{HERE}' has no attribute 'Missing'",
        ),
        (
            f"{HERE}:NOT_A_PLUGIN",
            f'plugin "{HERE}:NOT_A_PLUGIN": expected a subclass of scheduler.Plugin, got 7',
        ),
        (
            f"{HERE}:Outer",
            f'plugin "{HERE}:Outer": expected a subclass of scheduler.Plugin, got {Outer!r}',
        ),
        (
            f"{HERE}:Plugin",
            f'plugin "{HERE}:Plugin": expected a subclass of scheduler.Plugin, got {Plugin!r}',
        ),
    ],
)
def test_a_class_that_cannot_be_loaded_is_reported_in_one_line(reference: str, text: str) -> None:
    with pytest.raises(PluginSetupError) as refusal:
        load_plugin_class(reference)
    assert str(refusal.value) == text


def test_the_error_for_a_missing_module_names_the_folders_searched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, ""])
    monkeypatch.setenv("PYTHONPATH", "/plugins")
    with pytest.raises(PluginSetupError) as refusal:
        load_plugin_class("no.such.module:Guard")
    assert str(refusal.value) == (
        "plugin \"no.such.module:Guard\": cannot import: No module named 'no'; searched: "
        f"the working directory ({tmp_path}), PYTHONPATH (/plugins), the installed packages"
    )


def test_a_misspelt_class_gets_the_nearest_name() -> None:
    with pytest.raises(PluginSetupError, match=r'has no attribute \'Gaurd\' \(did .* "Guard"\?\)$'):
        load_plugin_class(f"{HERE}:Gaurd")


async def _async(self: Plugin, *arguments: object) -> None:
    """Do nothing."""


def _not_async(self: Plugin, *arguments: object) -> None:
    """Do nothing."""


def _returns_an_awaitable(self: Plugin, *arguments: object) -> Awaitable[None]:
    return _async(self)


@pytest.mark.parametrize("method", ["post_filter", "pre_bind", "bind", "post_bind"])
def test_a_forgotten_async_is_refused(method: str) -> None:
    with pytest.raises(PluginSetupError) as refusal:
        Registry([plugin("P", **{method: _not_async})])
    text = f'plugin "P": {method} must be async (`async def {method}`)'
    assert str(refusal.value) == text
    Registry([plugin("P", **{method: _returns_an_awaitable})])


@pytest.mark.parametrize("method", ["filter", "score", "reserve", "events_to_register", "less"])
def test_a_method_that_may_not_wait_is_refused_if_it_is_async(method: str) -> None:
    with pytest.raises(PluginSetupError, match=f'^plugin "P": {method} must not be async: '):
        Registry([plugin("P", **{method: _async})])


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in `sys.path` for modules and installed packages."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def _install(packages: Path, module: str, source: str, *entry_points: str) -> None:
    (packages / f"{module}.py").write_text(source, encoding="utf-8")
    metadata = packages / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", encoding="utf-8"
    )
    lines = ["[scheduler.plugins]", *entry_points]
    (metadata / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    sys.modules.pop(module, None)


def test_installed_packages_announce_plugins(packages: Path) -> None:
    source = (
        "from scheduler.framework import Plugin\n"
        "class Announced(Plugin):\n"
        "    def filter(self, state, pod, node): ...\n"
    )
    _install(packages, "announcing", source, "any-name = announcing:Announced")
    registry = Registry([SORT, Guard])
    registry.register_entry_points()
    assert list(registry) == ["Sort", "Guard", "Announced"]


def test_a_broken_entry_point_is_reported_in_one_line(packages: Path) -> None:
    _install(packages, "broken", "1 / 0", "any-name = broken:Plugin")
    with pytest.raises(PluginSetupError) as refusal:
        Registry().register_entry_points()
    assert str(refusal.value) == 'plugin "broken:Plugin": cannot import: division by zero'


def test_a_reference_is_imported_when_a_plugin_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
from scheduler import Plugin

class OnDemand(Plugin):
    def reserve(self, state, pod, node_name): ...
    def unreserve(self, state, pod, node_name): ...
"""
    (tmp_path / "on_demand_plugin.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry()
    registry.register_reference("OnDemand", "on_demand_plugin:OnDemand")
    assert "OnDemand" in registry
    assert list(registry) == ["OnDemand"]
    assert not registry.classes()
    assert "on_demand_plugin" not in sys.modules
    for _ in range(2):
        assert registry.create("OnDemand", None, FakeHandle()).name == "OnDemand"
    assert [plugin_class.name for plugin_class in registry.classes()] == ["OnDemand"]
