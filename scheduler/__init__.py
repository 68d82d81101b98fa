"""kube-scheduler in Python: v1.36's behaviour, every node at once.

    import scheduler
    from scheduler import Plugin, reject, unschedulable

    class GpuGuard(Plugin):
        def filter(self, state, pod, node):
            if "gpu" in node.labels and "gpu" not in pod.labels:
                return unschedulable("node(s) were reserved for GPU pods")

    scheduler.run(plugins=[GpuGuard])

The names of this package are for plugin authors; everything else may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler import framework
from scheduler.framework import *  # noqa: F403 # one list of names, in `framework`

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework import Plugin

__all__ = ["run"]
__all__ += framework.__all__


def run(*, plugins: Sequence[type[Plugin] | str] = (), args: Sequence[str] | None = None) -> None:
    """Run a scheduler with plugins of your own; the command line has all other options.

    `plugins` are classes, or references (`module:Class`). `args` replaces the command line of the
    process. Returns only by `SystemExit`.
    """
    # Imported here, so that the import of a plugin module does not load the whole scheduler.
    from scheduler.cli import run as run_command

    run_command(plugins=plugins, args=args)
