"""The flags of one run of the scheduler: API server, configuration, plugins, gates and chance.

Source: kube-scheduler `app/options/options.go`; `--plugin`, `--tie-break`, `--seed` and
`--check-cache-every` are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from scheduler.config.duration import Duration
from scheduler.config.feature_gates import help_lines
from scheduler.flags.types import DURATION, flag_group


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The values of these flags."""

    kubeconfig: str
    master: str
    config: Path | None
    plugins: tuple[str, ...]
    feature_gates: tuple[str, ...]
    tie_break: str
    seed: int | None
    check_cache_every: Duration | None
    pod_max_in_unschedulable_pods_duration: Duration


def _positive(_: click.Context, __: click.Parameter, value: Duration | None) -> Duration | None:
    if value is not None and value <= Duration():
        raise click.BadParameter(f"{value}: expected more than 0s")
    return value


_FLAGS: Final = (
    click.option("--kubeconfig", metavar="FILE", default="", help="How to reach the API server."),
    click.option("--master", metavar="URL", default="", help="The API server's address."),
    click.option(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="KubeSchedulerConfiguration.",
    ),
    click.option(
        "--plugin",
        "plugins",
        metavar="MODULE:CLASS",
        multiple=True,
        help="A plugin of your own, or the name of an installed one; enabled in every profile that "
        "does not mention it. May be given more than once.",
    ),
    click.option(
        "--feature-gates",
        metavar="NAME=true|false,...",
        multiple=True,
        help="Feature gates of kube-scheduler to set. May be given more than once. A gate is "
        "refused if it would change decisions in a way that is not built.\n\n"
        "\b\n" + "\n".join(["Options are:", *help_lines()]),
    ),
    click.option(
        "--tie-break",
        type=click.Choice(["random", "first"]),
        default="random",
        show_default=True,
        help="Which of several best nodes to take.",
    ),
    click.option("--seed", type=int, help="Makes chance repeatable."),
    click.option(
        "--check-cache-every",
        metavar="DURATION",
        type=DURATION,
        callback=_positive,
        help="Compare the cache with the API's view so often, when idle, and log what differs.",
    ),
    click.option(
        "--pod-max-in-unschedulable-pods-duration",
        metavar="DURATION",
        type=DURATION,
        default="5m",
        show_default=True,
        help="A pod that has waited so long for an event is tried again all the same. Deprecated.",
    ),
)

#: Adds these flags to a command, which gets them as its argument `options`: RunOptions.
run_flags: Final = flag_group(_FLAGS, "options", RunOptions)
