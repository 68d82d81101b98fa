"""The command `kubesched-explain`: its options, and one function per source of pods."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import os
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import msgspec
from msgspec.structs import replace

from scheduler.assembly.profiles import (
    find_plugins_in_working_directory,
    untyped_kinds_of,
    with_extenders,
)
from scheduler.client import ClientError
from scheduler.clock import SystemClock
from scheduler.config import ConfigError, default_config, load_config
from scheduler.explain.cluster import Cluster, ClusterError, read_api_server, with_api_defaults
from scheduler.explain.manifests import read_manifests
from scheduler.explain.scenarios import (
    Scenario,
    ScenarioError,
    decided,
    read_scenarios,
    world_of,
)
from scheduler.explain.story import SchedulerPort, StoryError
from scheduler.explain.text import TextPrinter
from scheduler.explain.world import World
from scheduler.extenders import HTTPExtenders
from scheduler.pages.data import report_data
from scheduler.pages.html import static_page
from scheduler.plugins import SCHEME
from scheduler.reports.build import cluster_report, pod_report
from scheduler.reports.decision import result_of
from scheduler.reports.model import PlacedPod, Report
from scheduler.runtime import FrameworkError, PluginSetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scheduler.api.core import Pod
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.explain.world import RunToEnd
    from scheduler.framework.extender import Extender
    from scheduler.reports.model import PodReport

_FAILURES: Final = (
    ClientError,
    ClusterError,
    ConfigError,
    FrameworkError,
    ScenarioError,
    StoryError,
)


def _number_or_all(_: click.Context, __: click.Parameter, value: str) -> int | None:
    if value == "all":
        return None
    if value.isdecimal() and int(value):
        return int(value)
    raise click.BadParameter(f"expected a number of at least 1, or all; got {value!r}")


_SOURCE_OPTIONS: Final = (
    click.option(
        "--scenarios",
        metavar="FILE|-",
        multiple=True,
        help="Recorded scenarios, one JSON object per line, gzipped or not; - is standard input.",
    ),
    click.option(
        "--manifests",
        metavar="FILE|-",
        multiple=True,
        type=click.Path(path_type=Path),
        help="YAML or JSON with nodes and pods; pods without a node are decided in order. "
        "- is standard input.",
    ),
    click.option("--kubeconfig", metavar="FILE", help="Read nodes and pods from an API server."),
    click.option("--master", metavar="URL", default="", help="The API server's address."),
)
_DECISION_OPTIONS: Final = (
    click.option(
        "--pod",
        metavar="[NS/]NAME",
        multiple=True,
        help="Explain only these pods. A pod that has a node is decided again without itself.",
    ),
    click.option(
        "--config", metavar="FILE", type=click.Path(path_type=Path), help="Configuration."
    ),
    click.option("--plugin", metavar="MODULE:CLASS", multiple=True, help="A plugin of your own."),
    click.option(
        "--call-extenders",
        is_flag=True,
        help="Call the extenders of --config: filter, prioritize and preempt, never bind.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "html", "jsonl"]),
        default="table",
        show_default=True,
        help="Tables, JSON with every node, a page of HTML, or the format of recorded decisions.",
    ),
    click.option(
        "--nodes-max",
        metavar="N|all",
        callback=_number_or_all,
        default="10",
        show_default=True,
        help="The longest list of nodes in a table.",
    ),
)
_STORY_OPTIONS: Final = (
    click.option(
        "--story",
        metavar="POD",
        help="Show what has happened to a pod, NAME or NS/NAME, or to a pod group, "
        "group/NAME or group/NS/NAME, instead of deciding; needs --server.",
    ),
    click.option(
        "--server",
        metavar="URL",
        default="",
        help="The port of a running scheduler: the story of --story, or with --kubeconfig or "
        "--master the stories of the explained pods.",
    ),
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
@click.version_option(package_name="kubesched", message="kubesched-explain %(version)s")
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
    call_extenders: bool,
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
    if story is not None and not server:
        raise click.UsageError("--story and --server go together")
    if server and (scenarios or manifests):
        raise click.UsageError("--server goes with --story, --kubeconfig or --master")
    if output == "jsonl" and not scenarios:
        raise click.UsageError("-o jsonl goes with --scenarios")
    port = SchedulerPort(
        url=server,
        token=token,
        certificate_authority=certificate_authority,
        verify=not insecure_skip_tls_verify,
    )
    with _one_line_errors(config), ExitStack() as stack:
        if story is not None:
            _show_story(port, story, output=output)
            return
        find_plugins_in_working_directory()
        if output == "jsonl":
            _print_json_lines(scenarios, plugin)
            return
        only = frozenset(name if "/" in name else f"default/{name}" for name in pod)
        if scenarios:
            answers = _Answers(_scenario_reports(scenarios, plugin, only))
        else:
            settings = load_config(config, SCHEME) if config else default_config(SCHEME)
            caller = _Caller(settings, call=call_extenders, stack=stack)
            cluster = _cluster(
                manifests, plugin, kubeconfig or "", master, keeps_json=bool(caller.extenders)
            )
            answers = _cluster_answers(settings, cluster, plugin, only, caller)
        if server:
            answers = answers._replace(pods=_with_stories(answers.pods, port))
        _show(answers, output=output, nodes_max=nodes_max)


class _Caller:
    """Calls the extenders of a configuration, if the user wants that; else names those left out.

    A call may change the state of an extender, so that it needs the user's consent.
    """

    def __init__(self, config: KubeSchedulerConfiguration, *, call: bool, stack: ExitStack) -> None:
        self.extenders: Sequence[Extender] = ()
        self.run: RunToEnd = result_of
        configs = with_extenders(config).extenders
        if not call:
            for extender in configs:
                click.echo(
                    f"kubesched-explain: the decisions are without extender {extender.url_prefix}; "
                    "--call-extenders calls it",
                    err=True,
                )
        elif configs:
            runner = stack.enter_context(asyncio.Runner())
            extenders = HTTPExtenders(configs, clock=SystemClock(), environ=os.environ)
            runner.run(extenders.__aenter__())
            stack.callback(lambda: runner.run(extenders.aclose()))
            self.extenders, self.run = extenders.in_order, runner.run


class _Answers(NamedTuple):
    """The reports, computed while they are read; and the cluster, complete after that."""

    pods: Iterator[PodReport]
    world: World | None = None


def _show(answers: _Answers, *, output: str, nodes_max: int | None) -> None:
    if output == "table":
        printer, shown = TextPrinter(nodes_max=nodes_max), 0
        for shown, report in enumerate(answers.pods, 1):  # noqa: B007
            printer.pod(report)
        if not shown:
            click.echo("no pod waits for a node; --pod explains a pod that has one", err=True)
        return
    pods = tuple(answers.pods)
    new = {report.pod for report in pods if report.current is None and report.choice is not None}
    cluster = cluster_report(answers.world.table, new_pods=new) if answers.world else None
    _print(Report(pods=pods, cluster=cluster), output=output)


def _print(report: Report, *, output: str) -> None:
    if output == "html":
        click.echo(static_page(report_data(report), title=_title(report)), nl=False)
    else:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2))


def _title(report: Report) -> str:
    if report.story is not None:
        return f"{report.story.namespace}/{report.story.name}"
    return report.pods[0].pod if len(report.pods) == 1 else "kubesched-explain"


def _show_story(port: SchedulerPort, pod: str, *, output: str) -> None:
    story = asyncio.run(port.story(pod, clock=SystemClock()))
    if output == "table":
        TextPrinter(nodes_max=None).story(story)
    else:
        _print(Report(story=story), output=output)


def _with_stories(pods: Iterable[PodReport], port: SchedulerPort) -> Iterator[PodReport]:
    reports = list(pods)
    keys = [report.pod for report in reports]
    stories = asyncio.run(port.stories(keys, clock=SystemClock()))
    for report in reports:
        yield replace(report, story=stories.get(report.pod))


def _cluster(
    manifests: Iterable[Path],
    plugins: Iterable[str],
    kubeconfig: str,
    master: str,
    *,
    keeps_json: bool,
) -> Cluster:
    kinds = untyped_kinds_of(plugins)
    if manifests:
        cluster, ignored = read_manifests(manifests, kinds, keeps_json=keeps_json)
        for path, numbers in ignored.items():
            counts = ", ".join(f"{number} {kind}" for kind, number in sorted(numbers.items()))
            click.echo(f"kubesched-explain: {path}: no decision depends on {counts}", err=True)
        return cluster
    work = read_api_server(kubeconfig, master, SystemClock(), kinds, keeps_json=keeps_json)
    return asyncio.run(work)


def _cluster_answers(
    config: KubeSchedulerConfiguration,
    cluster: Cluster,
    plugins: Iterable[str],
    only: frozenset[str],
    caller: _Caller,
) -> _Answers:
    """Explain the named pods with a node, in the cluster as it is; then the pods without one."""
    _require_known(only, {pod.key for pod in cluster.pods})
    world = World(
        config,
        nodes=cluster.nodes,
        pods=cluster.pods,
        others=cluster.others,
        plugins=plugins,
        extenders=caller.extenders,
        run=caller.run,
    )
    waiting = world.in_queue_order(pod for pod in cluster.pods if not pod.spec.node_name)
    assigned = [pod for pod in cluster.pods if pod.spec.node_name and pod.key in only]
    again = map(world.report_again, assigned)
    return _Answers(itertools.chain(again, _decided_in_order(world, waiting, only)), world)


def _require_known(only: frozenset[str], known: set[str]) -> None:
    missing = sorted(only - known)
    if not missing:
        return
    text = f"no such pod: {', '.join(missing)}"
    names = {key.rpartition("/")[2] for key in missing}
    if others := sorted(key for key in known if key.rpartition("/")[2] in names):
        text += f"; there is {', '.join(others[:3])}"
    raise ClusterError(text)


def _scenario_reports(
    paths: Iterable[str], plugins: tuple[str, ...], only: frozenset[str]
) -> Iterator[PodReport]:
    for scenario in _scenarios(paths):
        world = world_of(scenario, plugins)
        yield from _decided_in_order(world, scenario.pods, only, scenario=scenario.name)


def _decided_in_order(
    world: World, pods: Iterable[Pod], only: frozenset[str], *, scenario: str = ""
) -> Iterator[PodReport]:
    """Yield the decisions for pods; each decision includes the pods placed before."""
    placed: list[PlacedPod] = []
    for pod in pods:
        decision = world.decide(with_api_defaults(pod))
        if not only or decision.pod.key in only:
            framework = world.profiles.get(pod.spec.scheduler_name)
            report = pod_report(decision, framework, world.snapshot, scenario=scenario)
            yield replace(report, placed_before=tuple(placed))
        elif decision.result == "scheduled" and decision.schedule_result is not None:
            host = decision.schedule_result.suggested_host
            placed.append(PlacedPod(pod=decision.pod.key, node=host))


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
def _one_line_errors(config: Path | None) -> Iterator[None]:
    """Print a failure as one line and exit with 1; an error of a profile names `config`."""
    try:
        yield
    except OSError as error:
        click.echo(f"kubesched-explain: {error.filename}: {error.strerror}", err=True)
        raise SystemExit(1) from error
    except _FAILURES as error:
        # Profiles come from the file; plugins of the command line are refused before.
        is_of_file = isinstance(error, PluginSetupError) and str(error).startswith("initializing")
        file = f"{config}: " if is_of_file and config is not None else ""
        click.echo(f"kubesched-explain: {file}{error}", err=True)
        raise SystemExit(1) from error
