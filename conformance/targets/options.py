"""The options that several commands of the suite have: a scheduler to judge, a cluster, a seed.

Each decorator adds options to a command and gives it their values as one argument:

    target_options      target: TargetOptions      of run, fuzz, shrink
    time_options        target: TargetOptions      of diff, which names its two targets itself
    connection_options  connection: Connection     of capture, clean
    seed_option         seed: int
    timeout_option      timeout_seconds: float     of run, diff, fuzz
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, TypeAlias

import click
import msgspec

from ..connection import Connection
from ..options import PATH, Option, options_of
from .target import TargetOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    _Command: TypeAlias = Callable[..., None]
    _Option: TypeAlias = Callable[[_Command], _Command]

_DEFAULTS: Final = TargetOptions()

_scheduler: Callable[..., Option] = options_of("Scheduler")
_running: Callable[..., Option] = options_of("Running")

_KUBECONFIG: Final = "--kubeconfig"
_context = _scheduler(
    "--context", metavar="NAME", help="The kubeconfig's context; the current one by default."
)
_CHOICE: Final = (
    _scheduler(
        "--target-command",
        "command",
        metavar="CMD",
        help="The scheduler to judge: a command with {kubeconfig} and, for cases that configure "
        "it, {config} in it, for cases that read its metrics {port}, that set feature gates "
        "{feature-gates}. Our own scheduler if not given.",
    ),
    _scheduler(
        _KUBECONFIG,
        metavar="FILE",
        help="Judge the scheduler of a running cluster, in namespaces and on nodes of the suite's "
        "own.",
    ),
    _context,
    _scheduler(
        "--in-process",
        "--target",
        "in_process",
        metavar="MODULE:FUNCTION",
        default=_DEFAULTS.in_process,
        show_default=True,
        help="A scheduler to run in this process, in virtual time; kubesched@1.35 is ours as it "
        "decides in that version.",
    ),
    _scheduler(
        "--plugin",
        "plugins",
        metavar="MODULE:CLASS",
        multiple=True,
        help="A plugin for the profiles of our scheduler that do not mention it. May be repeated. "
        "For --target-command write the command's own flag.",
    ),
)
_TIMES: Final = (
    _scheduler(
        "--metrics-url",
        metavar="TEMPLATE",
        default=_DEFAULTS.metrics_url,
        show_default=True,
        help="The URL of a command's metrics. A certificate is not verified on loopback.",
    ),
    _running(
        "--quiet-period",
        "quiet_seconds",
        metavar="SECONDS",
        default=_DEFAULTS.quiet_seconds,
        show_default=True,
        type=click.FloatRange(min=0.05),
        help="A scheduler in real time has settled if it writes nothing for this time.",
    ),
    _running(
        "--real-time-max",
        "real_seconds_max",
        metavar="SECONDS",
        default=_DEFAULTS.real_seconds_max,
        show_default=True,
        type=click.FloatRange(min=0),
        help="Skip cases that need more waiting than this from a scheduler in real time.",
    ),
)


def timeout_option(default: float, text: str) -> Option:
    """Return the option for the time limit of each run."""
    return _running(
        "--timeout",
        "timeout_seconds",
        metavar="SECONDS",
        type=click.FloatRange(min=1),
        default=default,
        show_default=True,
        help=text,
    )


seed_option = _running(
    "--seed", type=int, default=0, show_default=True, help="Makes chance repeatable."
)


def target_options(command: _Command) -> _Command:
    """Add the options for one scheduler to judge."""
    return _with_target(command, (*_CHOICE, *_TIMES))


def time_options(command: _Command) -> _Command:
    """Add the options for schedulers in real time, without the choice of a scheduler."""
    return _with_target(command, _TIMES)


def connection_options(command: _Command) -> _Command:
    """Add the options for a running cluster. The command raises InputError for a bad file."""

    @functools.wraps(command)
    def connected(*, kubeconfig: Path, context: str | None, **others: object) -> None:
        command(connection=Connection.from_kubeconfig(kubeconfig, context or ""), **others)

    file = _scheduler(
        _KUBECONFIG,
        metavar="FILE",
        required=True,
        type=PATH,
        help="The API server of the cluster, and its user.",
    )
    return file(_context(connected))


def _with_target(command: _Command, options: Sequence[_Option]) -> _Command:
    @functools.wraps(command)
    def converted(**given: object) -> None:
        chosen = {
            name: value
            for name in TargetOptions.__struct_fields__
            if (value := given.pop(name, None)) is not None
        }
        command(target=msgspec.convert(chosen, TargetOptions), **given)

    decorated: _Command = converted
    for option in reversed(options):
        decorated = option(decorated)
    return decorated
