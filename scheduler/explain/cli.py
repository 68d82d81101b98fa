"""The command `kubesched-explain`: a sub-command for each thing that is explained."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
from typing import TYPE_CHECKING, Final

import click
import msgspec
from msgspec.structs import replace

from scheduler.assembly.profiles import (
    find_plugins_in_working_directory,
    with_extenders,
)
from scheduler.clock import SystemClock
from scheduler.explain import options
from scheduler.explain.cluster import ClusterError, with_api_defaults
from scheduler.explain.compare_versions import (
    comparison_lines,
    comparison_table,
    decided_by_versions,
    parse_versions,
)
from scheduler.explain.gates import GateOptions, gate_options
from scheduler.explain.questions import Question, QuestionError, read_questions
from scheduler.explain.references import dump_command
from scheduler.explain.source import Source, one_line_errors, settings
from scheduler.explain.story import SchedulerPort, StoryError
from scheduler.explain.text import TextPrinter
from scheduler.explain.world import World
from scheduler.extenders import HTTPExtenders
from scheduler.metrics.scheduler_metrics import METRICS
from scheduler.pages.data import report_data
from scheduler.pages.html import static_page
from scheduler.reports.build import cluster_report
from scheduler.reports.model import PlacedPod, Report
from scheduler.reports.summary import summary_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from click.shell_completion import CompletionItem

    from scheduler.api.core import Pod
    from scheduler.config import FeatureGates, KubeSchedulerConfiguration, SchedulerVersion
    from scheduler.framework.extender import Extender
    from scheduler.reports.model import PodReport

#: The name of the program in messages.
_PROGRAM: Final = "kubesched-explain"
_NOTHING_WAITS: Final = "no pod waits for a node; --pod explains a pod that has one"

_one_line_errors: Final = functools.partial(
    one_line_errors, _PROGRAM, failures=(QuestionError, StoryError)
)


class _Commands(click.Group):
    """Sub-commands. Without a sub-command the arguments belong to `pods` or `story`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {*self.commands, *ctx.help_option_names, "--version"}
        is_completed = ctx.resilient_parsing and not args
        if not is_completed and (not args or args[0] not in own):
            args = ["story", *_positional(args)] if _names_story(args) else ["pods", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the first word: a command, or an option of `pods`."""
        of_pods = self.commands["pods"].shell_complete(ctx, incomplete)
        return [*super().shell_complete(ctx, incomplete), *of_pods]


def _names_story(args: Sequence[str]) -> bool:
    return any(arg == "--story" or arg.startswith("--story=") for arg in args)


def _positional(args: Iterable[str]) -> list[str]:
    """Return the arguments with the pod of `--story POD` as an argument of its own."""
    return [arg.removeprefix("--story=") for arg in args if arg != "--story"]


def _number_or_all(_: click.Context, __: click.Parameter, value: str) -> int | None:
    if value == "all":
        return None
    if value.isdecimal() and int(value):
        return int(value)
    raise click.BadParameter(f"expected a number of at least 1, or all; got {value!r}")


def _port_options(*, needs_server: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options that name the port of a running scheduler, and the parameter `port`."""

    def port(
        *, server: str | None, token: str, certificate_authority: str, insecure: bool
    ) -> SchedulerPort | None:
        if not server:
            return None
        return SchedulerPort(
            url=server,
            token=token,
            certificate_authority=certificate_authority,
            verify=not insecure,
        )

    return options.gathered(
        "port",
        port,
        server=click.option(
            "--server",
            metavar="URL",
            required=needs_server,
            help="The port of a running scheduler, which has the stories of its pods.",
        ),
        token=click.option("--token", default="", help="A bearer token for the scheduler's port."),
        certificate_authority=click.option(
            "--certificate-authority",
            metavar="FILE",
            default="",
            help="The authority that signed the scheduler's certificate.",
        ),
        insecure=click.option(
            "--insecure-skip-tls-verify",
            "insecure",
            is_flag=True,
            help="Do not verify the scheduler's certificate.",
        ),
    )


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kubesched", message="kubesched-explain %(version)s")
def main() -> None:
    """Explain the scheduler's decisions for pods. Nothing is ever written to a cluster.

    The default command is pods.
    """


@main.command()
@options.manifests
@options.kubeconfig
@options.master
@click.option(
    "--pod",
    metavar="[NS/]NAME",
    multiple=True,
    help="Explain only these pods. A pod that has a node is decided again without itself.",
)
@options.config
@options.plugin
@gate_options
@options.scheduler_version
@click.option(
    "--compare-versions",
    "versions",
    metavar="V,V",
    default="",
    callback=parse_versions,
    help="Decide as several versions, such as 1.35,1.37, and show what differs. The decisions of "
    "the first version count for the pods after them.",
)
@click.option(
    "--call-extenders",
    is_flag=True,
    help="Call the extenders of --config: filter, prioritize and preempt, never bind.",
)
@options.output
@click.option(
    "--nodes-max",
    metavar="N|all",
    callback=_number_or_all,
    default="10",
    show_default=True,
    help="The longest list of nodes in a table.",
)
@click.option(
    "-v",
    "--details",
    "wants_details",
    is_flag=True,
    help="Show the tables of each pod below the summary, as for a single pod.",
)
@click.option(
    "--dump-command",
    "prints_dump_command",
    is_flag=True,
    help="Print the kubectl command whose output --manifests needs, and exit.",
)
@_port_options(needs_server=False)
def pods(
    *,
    manifests: tuple[Path, ...],
    kubeconfig: str,
    master: str,
    pod: tuple[str, ...],
    config: Path | None,
    plugin: tuple[str, ...],
    gates: GateOptions,
    version: SchedulerVersion,
    versions: tuple[SchedulerVersion, ...],
    call_extenders: bool,
    output: str,
    nodes_max: int | None,
    wants_details: bool,
    prints_dump_command: bool,
    port: SchedulerPort | None,
) -> None:
    """Decide the pods of a cluster that wait for a node, or --pod.

    With --server, also show what a running scheduler has done with them.
    """
    find_plugins_in_working_directory()
    if prints_dump_command:
        with _one_line_errors(config):
            world = _world(config, version, gates.in_version(version), plugin)
            return click.echo(dump_command(world.kinds))
    source = Source(_PROGRAM, manifests, kubeconfig, master, plugin)
    _require_compatible(source, port, versions, output)
    decided, on_refused = versions or (version,), source.warn if versions else None
    enabled = {v: gates.in_version(v, on_refused=on_refused) for v in decided}
    only = frozenset(name if "/" in name else f"default/{name}" for name in pod)

    async def explain() -> None:
        first = settings(config, version=decided[0], gates=enabled[decided[0]])
        async with _extenders(first, call=call_extenders) as extenders:
            worlds = {
                v.label: _world(config, v, on, plugin, extenders) for v, on in enabled.items()
            }
            kinds = {kind.resource.key: kind for each in worlds.values() for kind in each.kinds}
            cluster, missing = await source.read(kinds.values(), keeps_json=bool(extenders))
            asked = _asked(cluster.pods, only)
            for warning in missing.warnings(asked.values()):
                source.warn(f"{warning}; what is said of them is unsure")
            for world in worlds.values():
                world.load(*cluster)
            if versions:
                return await _show_versions(worlds, cluster.pods, only, output=output)
            reports: AsyncIterable[PodReport] = (
                missing.marked(report, asked[report.pod])
                async for report in _reports(world, cluster.pods, only)
            )
            if port is not None:
                reports = _with_stories(reports, port)
            if output != "table":
                return await _print_all(reports, world, output=output)
            await _show(reports, nodes_max=nodes_max, wants_details=wants_details, only=only)

    with _one_line_errors(config):
        asyncio.run(explain())


def _require_compatible(
    source: Source, port: SchedulerPort | None, versions: Sequence[SchedulerVersion], output: str
) -> None:
    """Raise UsageError for options that exclude one another."""
    if port is not None and source.manifests:
        raise click.UsageError("--server goes with --kubeconfig or --master")
    if versions and (port is not None or output == "html"):
        raise click.UsageError("--compare-versions goes with -o table and -o json, not --server")


def _world(
    config: Path | None,
    version: SchedulerVersion,
    feature_gates: FeatureGates,
    plugins: tuple[str, ...],
    extenders: Sequence[Extender] = (),
) -> World:
    """Return an empty cluster in which a version decides."""
    return World(
        settings(config, version=version, gates=feature_gates),
        plugins=plugins,
        version=version,
        feature_gates=feature_gates,
        extenders=extenders,
    )


@main.command()
@click.argument("pod")
@options.output
@_port_options(needs_server=True)
def story(*, pod: str, output: str, port: SchedulerPort) -> None:
    """Show what a running scheduler has done with a POD, NAME or NS/NAME.

    group/NAME and group/NS/NAME name a pod group.
    """
    with _one_line_errors(None):
        told = asyncio.run(port.story(pod, clock=SystemClock()))
    if output == "table":
        TextPrinter(nodes_max=None).story(told)
    else:
        _print(Report(story=told), output=output)


@main.command()
@options.scheduler_version
def metrics(*, version: SchedulerVersion) -> None:
    """Print the names of the metrics that kube-scheduler has in a version, and ours."""
    for metric in METRICS.values():
        if metric.is_shown(version, shows_hidden=False):
            click.echo(metric.name)


@main.command()
@click.argument("questions", type=click.File("rb"))
@options.plugin
@options.scheduler_version
def batch(
    *, questions: Iterable[bytes], plugin: tuple[str, ...], version: SchedulerVersion
) -> None:
    """Answer QUESTIONS, one JSON object a line; - is standard input.

    A question has a name, objects, pods to schedule in turn, and maybe a config and features (gates
    by name). Its answer is one line, in the format of -o json.
    """
    out = sys.stdout.buffer

    async def answer() -> None:
        for question in read_questions(questions, Question, source="questions"):
            world, pods = question.world(plugin, version), question.pods
            reports = _decided_in_order(world, pods, frozenset(), question=question.name)
            report = Report(pods=tuple([report async for report in reports]))
            out.write(msgspec.json.encode(report) + b"\n")
        out.flush()

    with _one_line_errors(None):
        find_plugins_in_working_directory()
        asyncio.run(answer())


@contextlib.asynccontextmanager
async def _extenders(
    config: KubeSchedulerConfiguration, *, call: bool
) -> AsyncIterator[Sequence[Extender]]:
    """Yield the extenders of a configuration, if the user wants calls; else print their names.

    A call may change the state of an extender, so that it needs the user's consent.
    """
    configs = with_extenders(config).extenders
    if not call:
        for extender in configs:
            click.echo(
                f"kubesched-explain: the decisions are without extender {extender.url_prefix}; "
                "--call-extenders calls it",
                err=True,
            )
        configs = ()
    async with HTTPExtenders(configs, clock=SystemClock(), environ=os.environ) as extenders:
        yield extenders.in_order


def _asked(pods: Sequence[Pod], only: frozenset[str]) -> dict[str, Pod]:
    """Return the pods to explain, by key: the named pods, or all without a node.

    Raises ClusterError for a name that no pod has.
    """
    _require_known(only, {pod.key for pod in pods})
    return {p.key: p for p in pods if (p.key in only if only else not p.spec.node_name)}


def _require_known(only: frozenset[str], known: set[str]) -> None:
    missing = sorted(only - known)
    if not missing:
        return
    text = f"no such pod: {', '.join(missing)}"
    names = {key.rpartition("/")[2] for key in missing}
    if others := sorted(key for key in known if key.rpartition("/")[2] in names):
        text += f"; there is {', '.join(others[:3])}"
    raise ClusterError(text)


async def _reports(
    world: World, pods: Sequence[Pod], only: frozenset[str]
) -> AsyncIterator[PodReport]:
    """Explain the named pods with a node, in the cluster as it is; then the pods without one."""
    for pod in pods:
        if pod.spec.node_name and pod.key in only:
            yield await world.report_again(pod)
    waiting = world.in_queue_order(pod for pod in pods if not pod.spec.node_name)
    async for report in _decided_in_order(world, waiting, only):
        yield report


async def _decided_in_order(
    world: World, pods: Iterable[Pod], only: frozenset[str], *, question: str = ""
) -> AsyncIterator[PodReport]:
    """Yield the decisions for pods; each decision includes the pods placed before."""
    placed: list[PlacedPod] = []
    waiting = [with_api_defaults(pod) for pod in pods]
    world.expect(waiting)
    for pod in waiting:
        decision = await world.decide(pod)
        if not only or decision.pod.key in only:
            report = world.report(decision, scenario=question)
            yield replace(report, placed_before=tuple(placed))
        elif decision.node:
            placed.append(PlacedPod(pod=decision.pod.key, node=decision.node))


async def _with_stories(
    reports: AsyncIterable[PodReport], port: SchedulerPort
) -> AsyncIterator[PodReport]:
    listed = [report async for report in reports]
    stories = await port.stories([report.pod for report in listed], clock=SystemClock())
    for report in listed:
        yield replace(report, story=stories.get(report.pod))


async def _show(
    reports: AsyncIterable[PodReport],
    *,
    nodes_max: int | None,
    wants_details: bool,
    only: frozenset[str],
) -> None:
    """Print a summary of several pods, and the tables of a single pod or on request.

    Pods given by name get tables without a summary.
    """
    wants_details = wants_details or bool(only)
    listed: list[PodReport] = []
    async for report in reports:
        # The summary of many pods in a large cluster needs no lists of nodes.
        has_tables = wants_details or not listed
        listed.append(report if has_tables else replace(report, nodes=()))
    if not listed:
        click.echo(_NOTHING_WAITS, err=True)
        return
    printer = TextPrinter(nodes_max=nodes_max)
    if len(listed) > 1 and not only:
        printer.summary(summary_of(listed))
    if len(listed) > 1 and not wants_details:
        click.echo("--pod NAME or --details (-v) shows the nodes")
        return
    for report in listed:
        printer.pod(report)


async def _show_versions(
    worlds: Mapping[str, World], pods: Sequence[Pod], only: frozenset[str], *, output: str
) -> None:
    """Decide the pods as several versions, and print the pods that are decided otherwise.

    As JSON all pods are printed.
    """
    compared = [pod async for pod in decided_by_versions(worlds, pods, only)]
    if output == "json":
        return _print(Report(versions=tuple(compared)), output=output)
    if not compared:
        return click.echo(_NOTHING_WAITS, err=True)
    for line in comparison_lines(compared):
        click.echo(line)
    if different := [pod for pod in compared if pod.differences]:
        TextPrinter(nodes_max=None).show(comparison_table(different))


async def _print_all(reports: AsyncIterable[PodReport], world: World, *, output: str) -> None:
    pods = tuple([report async for report in reports])
    new = {report.pod for report in pods if report.current is None and report.choice is not None}
    # The cluster is complete after the last decision.
    cluster = cluster_report(world.table, new_pods=new)
    _print(Report(summary=summary_of(pods), pods=pods, cluster=cluster), output=output)


def _print(report: Report, *, output: str) -> None:
    if output == "html":
        click.echo(static_page(report_data(report), title=_title(report)), nl=False)
    else:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2))


def _title(report: Report) -> str:
    if report.story is not None:
        return f"{report.story.namespace}/{report.story.name}"
    return report.pods[0].pod if len(report.pods) == 1 else "kubesched-explain"
