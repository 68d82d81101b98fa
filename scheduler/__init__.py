"""kube-scheduler in Python: v1.36's behaviour, every node at once.

    import scheduler
    from scheduler import Plugin, reject, unschedulable

    class GpuGuard(Plugin):
        def filter(self, state, pod, node):
            if "gpu" in node.labels and "gpu" not in pod.labels:
                return unschedulable("node(s) were reserved for GPU pods")

    scheduler.run(plugins=[GpuGuard])

The names of this package are for plugin authors; everything else may change. The names come from
`scheduler.framework`, which is imported when the first name is used (PEP 562).
"""

from __future__ import annotations

import importlib.machinery
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    # The framework's `__all__` is the list of the public names.
    from scheduler.framework import *  # noqa: F403
    from scheduler.framework import Plugin


def run(*, plugins: Sequence[type[Plugin] | str] = (), args: Sequence[str] | None = None) -> None:
    """Run a scheduler with plugins of your own; the command line has all other options.

    `plugins` are classes, or references (`module:Class`). `args` replaces the command line of the
    process. Returns only by `SystemExit`.
    """
    # Imported here, so that the import of a plugin module does not load the whole scheduler.
    from scheduler.cli import run as run_command

    run_command(plugins=plugins, args=args)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    is_special = name.startswith("__") and name != "__all__"
    if is_special or _is_submodule(name):
        # An import asks for the name of a submodule before it loads it.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    framework = importlib.import_module("scheduler.framework")
    if name == "__all__":
        return [*framework.__all__, "run"]
    if name not in framework.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(framework, name)
    globals()[name] = value
    return value


def _is_submodule(name: str) -> bool:
    folder = os.path.dirname(__file__)
    return importlib.machinery.PathFinder.find_spec(f"{__name__}.{name}", [folder]) is not None


def __dir__() -> list[str]:
    framework = importlib.import_module("scheduler.framework")
    return sorted([*framework.__all__, "run"])
