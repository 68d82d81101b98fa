"""The command `kubesched-explain`: its options, and one function per source of pods."""

from __future__ import annotations

import asyncio
import gzip
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec
from rich.console import Console

from scheduler.assembly.profiles import find_plugins_in_working_directory
from scheduler.client import ClientError
from scheduler.clock import SystemClock
from scheduler.config import ConfigError, default_config, load_config
from scheduler.explain.cluster import (
    Cluster,
    ClusterError,
    read_api_server,
    read_manifests,
    with_api_defaults,
)
from scheduler.explain.remedies import nearest_nodes
from scheduler.explain.scenarios import (
    Scenario,
    ScenarioError,
    decided,
    read_scenarios,
    world_of,
)
from scheduler.explain.story import SchedulerPort, StoryError, story_lines
from scheduler.explain.table import decision_table, remedies_table
from scheduler.explain.world import World
from scheduler.plugins import SCHEME
from scheduler.runtime import FrameworkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scheduler.api.core import Pod
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.explain.remedies import NodeRemedies
    from scheduler.explain.world import Decision
    from scheduler.framework.status import Status

#: The number of nodes for which remedies are shown.
_NEAREST_MAX: Final = 3
_FAILURES: Final = (
    ClientError,
    ClusterError,
    ConfigError,
    FrameworkError,
    ScenarioError,
    StoryError,
)


_SOURCE_OPTIONS: Final = (
    click.option(
        "--scenarios",
        metavar="FILE|-",
        multiple=True,
        help="Recorded scenarios, one JSON object per line, gzipped or not; - is standard input.",
    ),
    click.option(
        "--manifests",
        metavar="FILE",
        multiple=True,
        type=click.Path(path_type=Path),
        help="YAML or JSON with nodes and pods; pods without a node are decided in order.",
    ),
    click.option("--kubeconfig", metavar="FILE", help="Read nodes and pods from an API server."),
    click.option("--master", metavar="URL", default="", help="The API server's address."),
)
_DECISION_OPTIONS: Final = (
    click.option("--pod", metavar="NS/NAME", multiple=True, help="Decide only these pods."),
    click.option(
        "--config", metavar="FILE", type=click.Path(path_type=Path), help="Configuration."
    ),
    click.option("--plugin", metavar="MODULE:CLASS", multiple=True, help="A plugin of your own."),
    click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "jsonl"]),
        default="table",
        show_default=True,
        help="A table for people, or the format of recorded decisions.",
    ),
    click.option(
        "--nodes-max", type=click.IntRange(min=1), help="The longest list of nodes to show."
    ),
)
_STORY_OPTIONS: Final = (
    click.option(
        "--story",
        metavar="POD",
        help="Show what has happened to a pod, NAME or NS/NAME, instead of deciding; "
        "needs --server.",
    ),
    click.option("--server", metavar="URL", default="", help="The port of a running scheduler."),
    click.option("--token", default="", help="A bearer token for the scheduler's port."),
    click.option(
        "--certificate-authority",
        metavar="FILE",
        default="",
        help="The authority that signed the scheduler's certificate.",
    ),
    click.option(
        "--insecure-skip-tls-verify",
        is_flag=True,
        help="Do not verify the scheduler's certificate.",
    ),
)


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed((*_SOURCE_OPTIONS, *_DECISION_OPTIONS, *_STORY_OPTIONS)):
        command = option(command)
    return command


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@_with_options
def main(
    *,
    scenarios: tuple[str, ...],
    manifests: tuple[Path, ...],
    kubeconfig: str | None,
    master: str,
    pod: tuple[str, ...],
    config: Path | None,
    plugin: tuple[str, ...],
    output: str,
    nodes_max: int | None,
    story: str | None,
    server: str,
    token: str,
    certificate_authority: str,
    insecure_skip_tls_verify: bool,
) -> None:
    """Explain the scheduler's decisions for pods.

    The cluster comes from recorded scenarios, from manifests, or from an API server; nothing is
    ever written to it. With --story, show what a running scheduler has done with a pod.
    """
    sources = [bool(scenarios), bool(manifests), bool(kubeconfig or master), story is not None]
    if sum(sources) != 1:
        raise click.UsageError("give one of --scenarios, --manifests, --kubeconfig, --story")
    if bool(server) != (story is not None):
        raise click.UsageError("--story and --server go together")
    if output == "jsonl" and not scenarios:
        raise click.UsageError("-o jsonl goes with --scenarios")
    with _one_line_errors():
        if story is not None:
            port = SchedulerPort(
                url=server,
                token=token,
                certificate_authority=certificate_authority,
                verify=not insecure_skip_tls_verify,
            )
            _print_story(port, story)
            return
        find_plugins_in_working_directory()
        printer = _Printer(only=frozenset(pod), nodes_max=nodes_max)
        if output == "jsonl":
            _print_json_lines(scenarios, plugin)
        elif scenarios:
            _print_scenarios(printer, scenarios, plugin)
        else:
            settings = load_config(config, SCHEME) if config else default_config(SCHEME)
            cluster = _cluster(manifests, kubeconfig=kubeconfig or "", master=master)
            printer.cluster(settings, cluster, plugin)


class _Printer:
    """Prints decisions for a person."""

    def __init__(self, *, only: frozenset[str], nodes_max: int | None) -> None:
        self._console: Final = Console()
        self._only: Final = only
        self._nodes_max: Final = nodes_max

    def heading(self, name: str) -> None:
        """Print the title of a scenario."""
        self._console.rule(name, align="left")

    def cluster(
        self, config: KubeSchedulerConfiguration, cluster: Cluster, plugins: Iterable[str]
    ) -> None:
        """Print the decisions for the cluster's pods that have no node."""
        known = {pod.key for pod in cluster.pods}
        if missing := sorted(self._only - known):
            raise ClusterError(f"no such pod: {', '.join(missing)}")
        world = World(
            config,
            nodes=cluster.nodes,
            pods=cluster.pods,
            others=cluster.others,
            plugins=plugins,
        )
        waiting = [pod for pod in cluster.pods if not pod.spec.node_name]
        self.decisions(world, waiting)

    def decisions(self, world: World, pods: Iterable[Pod]) -> None:
        """Print the decisions for pods in order; each decision includes the pods placed before."""
        for pod in pods:
            decision = world.decide(with_api_defaults(pod))
            if not self._only or decision.pod.key in self._only:
                self._console.print(decision_table(decision, nodes_max=self._nodes_max))
                if decision.result == "unschedulable":
                    self._console.print(remedies_table(*_remedies(world, decision)))


def _cluster(manifests: Iterable[Path], *, kubeconfig: str, master: str) -> Cluster:
    if manifests:
        return read_manifests(manifests)
    return asyncio.run(read_api_server(kubeconfig, master, SystemClock()))


def _print_story(port: SchedulerPort, pod: str) -> None:
    story = asyncio.run(port.story(pod, clock=SystemClock()))
    # Long lines are left to the terminal to wrap, so that copied text has no extra line breaks.
    Console().print(story_lines(story), soft_wrap=True)


def _remedies(world: World, decision: Decision) -> tuple[Status | None, list[NodeRemedies]]:
    framework = world.profiles[decision.pod.spec.scheduler_name]
    return nearest_nodes(framework, world.snapshot, decision.pod, nodes_max=_NEAREST_MAX)


def _print_scenarios(printer: _Printer, paths: Iterable[str], plugins: tuple[str, ...]) -> None:
    for scenario in _scenarios(paths):
        printer.heading(scenario.name)
        printer.decisions(world_of(scenario, plugins), scenario.pods)


def _print_json_lines(paths: Iterable[str], plugins: tuple[str, ...]) -> None:
    out = sys.stdout.buffer
    for scenario in _scenarios(paths):
        out.write(msgspec.json.encode(decided(scenario, plugins)) + b"\n")
    out.flush()


def _scenarios(paths: Iterable[str]) -> Iterator[Scenario]:
    for path in paths:
        if path == "-":
            yield from read_scenarios(sys.stdin.buffer, source="standard input")
        elif path.endswith(".gz"):
            with gzip.open(path) as lines:
                yield from read_scenarios(lines, source=path)
        else:
            with Path(path).open("rb") as lines:
                yield from read_scenarios(lines, source=path)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        click.echo(f"kubesched-explain: {error.filename}: {error.strerror}", err=True)
        raise SystemExit(1) from error
    except _FAILURES as error:
        click.echo(f"kubesched-explain: {error}", err=True)
        raise SystemExit(1) from error
