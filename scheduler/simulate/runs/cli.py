"""The command `kubesched-simulate run`: play a history by one or several policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.table import Table

from scheduler.config import ConfigError, load_config
from scheduler.explain.source import one_line_errors
from scheduler.plugins import SCHEME
from scheduler.runtime import PluginSetupError, load_plugin_class
from scheduler.simulate.runs.campaign import Campaign, campaign_options, carry_out
from scheduler.simulate.runs.one_run import RunResults, Task, carry_out_run
from scheduler.simulate.runs.report import (
    Statistic,
    rows_of,
    statistics_of,
    write_csv,
    write_page,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DIFFERENCES_SHOWN = 20


@click.command()
@click.argument("history", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME=CONFIG",
    help="A name, and a configuration file, a plugin module:Class for the default profile, or "
    "`default`. May be given again. By default the default profile alone.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="MODULE:CLASS",
    help="A plugin that the configurations name. May be given again.",
)
@click.option(
    "--seeds",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    help="Runs of each policy, by default 1: chance decides between equal scores.",
)
@click.option(
    "--as-recorded",
    is_flag=True,
    help="Equal scores: take the node of the history instead, otherwise the first by name.",
)
@campaign_options
def run(
    *,
    history: Path,
    policies: Sequence[str],
    plugins: Sequence[str],
    seeds: int,
    as_recorded: bool,
    campaign: Campaign,
) -> None:
    """Play a history by one or several policies, and compare them.

    Time is virtual. Ctrl-C keeps the runs that have ended. Differences from the history's own
    decisions are listed if the history has some.
    """
    tasks = {
        f"{name} seed {seed}": Task(
            history=str(history.absolute()),
            policy=name,
            config=config,
            plugins=(*plugins, *own),
            seed=seed,
            as_recorded=as_recorded,
        )
        for name, config, own in map(_policy, policies or ("default=default",))
        for seed in range(1, seeds + 1)
    }
    with one_line_errors("kubesched-simulate"):
        results = carry_out(carry_out_run, tasks, campaign, RunResults)
    runs: dict[str, list[RunResults]] = {}
    for name, result in results.items():
        runs.setdefault(tasks[name].policy, []).append(result)
    table = statistics_of(runs)
    rows = (
        (policy, metric, len(runs[policy]), round(mean, 4), round(sd, 4))
        for policy, numbers in table.items()
        for metric, (mean, sd) in numbers.items()
    )
    output = campaign.output
    write_csv(output / "results.csv", ("policy", "metric", "seeds", "mean", "sd"), rows)
    encoded = msgspec.json.format(msgspec.json.encode(runs), indent=1)
    (output / "results.json").write_bytes(encoded)
    write_page(output / "report.html", runs, title=f"{history.name}: {', '.join(runs)}")
    _print(table, runs)
    if len(results) < len(tasks):
        raise SystemExit(130)


def _policy(text: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the name, the configuration and the plugins of a policy. Raises `UsageError`."""
    name, _, source = text.partition("=")
    if not name or not source:
        raise click.UsageError(f"--policy: expected NAME=CONFIG, got {text!r}")
    try:
        if Path(source).is_file():
            load_config(source, SCHEME)
            return name, Path(source).read_text(encoding="utf-8-sig"), ()
        if ":" in source:
            load_plugin_class(source)
            return name, "", (source,)
    except (ConfigError, PluginSetupError) as error:
        raise click.UsageError(f"--policy {name}: {error}") from error
    if source != "default":
        problem = f"expected a file, module:Class or default, got {source!r}"
        raise click.UsageError(f"--policy {name}: {problem}")
    return name, "", ()


def _print(
    numbers: Mapping[str, Mapping[str, Statistic]], runs: Mapping[str, Sequence[RunResults]]
) -> None:
    """Print the table of all metrics, and the first differences from the history."""
    table = Table("")
    for policy in numbers:
        table.add_column(policy, justify="right")
    for metric, cells in rows_of(numbers, "{0.mean:,.2f}"):
        table.add_row(metric, *cells)
    Console().print(table)
    for policy, (first, *_) in runs.items():
        if not first.compared:
            continue
        same = first.compared - len(first.differences)
        click.echo(f"{policy}: {same} of {first.compared} pods as in the history")
        for each in first.differences[:_DIFFERENCES_SHOWN]:
            node = each.node or "no node"
            click.echo(f"  {each.pod}: {node}, in the history {each.recorded}: {each.cause}")
