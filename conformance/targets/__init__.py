"""The schedulers that are judged: a running cluster, a command, or a function in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InputError
from .cluster import ClusterKind
from .command import CommandKind
from .in_process import InProcessKind
from .target import OUR_SCHEDULER

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
    if options.command and options.in_process != OUR_SCHEDULER:
        raise InputError("--target-command: not together with --target or --in-process")
    if options.kubeconfig:
        if options.command:
            raise InputError("--kubeconfig judges the cluster's scheduler: no --target-command")
        return ClusterKind(options)
    if options.command:
        return CommandKind(options)
    version = options.scheduler_version
    reference = OUR_SCHEDULER if version else options.in_process
    module, _, function = reference.partition(":")
    if not module or not function:
        raise InputError(
            "--in-process: expected MODULE:FUNCTION or kubesched@VERSION, "
            f"got {options.in_process!r}"
        )
    return InProcessKind(module, function, plugins=options.plugins, version=version)
