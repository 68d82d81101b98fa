"""The schedulers that are judged: a running cluster, a command, or a function in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InputError
from .cluster import ClusterKind
from .command import CommandKind
from .in_process import InProcessKind

if TYPE_CHECKING:
    from .target import TargetKind, TargetOptions

__all__ = ["target_kind"]


def target_kind(options: TargetOptions) -> TargetKind:
    """Return the kind of target for the options. Raises InputError."""
    if options.command and options.plugins:
        raise InputError(
            "--plugin is for the scheduler in process; in --target-command write the command's own "
            "flag, such as: kubesched --plugin MODULE:CLASS --kubeconfig {kubeconfig}"
        )
    if options.kubeconfig:
        if options.command:
            raise InputError("--kubeconfig judges the cluster's scheduler: no --target-command")
        return ClusterKind(options)
    if options.command:
        return CommandKind(options)
    module, _, function = options.in_process.partition(":")
    if not module or not function:
        raise InputError(f"--in-process: expected MODULE:FUNCTION, got {options.in_process!r}")
    return InProcessKind(module, function, plugins=options.plugins)
