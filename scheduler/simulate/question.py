"""The sub-commands about a cluster: they read it, ask one question, and print the answer."""

from __future__ import annotations

import asyncio
import functools
import gc
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from scheduler.assembly.profiles import find_plugins_in_working_directory
from scheduler.assembly.simulated_cluster import SimulatedCluster
from scheduler.assembly.watched_kinds import WatchedKind, kinds_to_watch
from scheduler.client.informer import Required
from scheduler.collector import paused_collection
from scheduler.explain import options
from scheduler.explain.gates import GateOptions, gate_options
from scheduler.explain.manifests import PRIORITY_CLASSES
from scheduler.explain.source import Source, one_line_errors, settings
from scheduler.pages.data import cluster_data
from scheduler.pages.html import static_page
from scheduler.simulate.simulation import Situation
from scheduler.simulate.text import outcomes, print_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from scheduler.config import FeatureGates, SchedulerVersion
    from scheduler.simulate.answers import Answer

_PROGRAM: Final = "kubesched-simulate"

_OPTIONS: Final = (
    *(options.manifests, options.kubeconfig, options.master),
    *(options.config, options.plugin, gate_options, options.scheduler_version, options.output),
)


def question(ask: Callable[..., Coroutine[Any, Any, Answer]]) -> click.Command:
    """Make a sub-command of a function that gets a `Situation` and the values of its own options.

    The sub-command has the options that name the cluster and the scheduler, too.
    """

    def command(
        *,
        manifests: tuple[Path, ...],
        kubeconfig: str,
        master: str,
        config: Path | None,
        plugin: tuple[str, ...],
        gates: GateOptions,
        version: SchedulerVersion,
        output: str,
        **own: object,
    ) -> None:
        source = Source(_PROGRAM, manifests, kubeconfig, master, plugin)
        enabled = gates.in_version(version)

        async def answered() -> Answer:
            return await ask(await _situation(source, config, enabled, version), **own)

        with one_line_errors(_PROGRAM, config), paused_collection():
            find_plugins_in_working_directory()
            answer = asyncio.run(answered())
            gc.freeze()  # before the end of a process collections only cost
        for warning in answer.warnings:
            source.warn(warning)
        _print(answer, output)

    decorated = options.added(_OPTIONS, functools.wraps(ask)(command))
    return click.command()(decorated)


async def _situation(
    source: Source, config: Path | None, enabled: FeatureGates, version: SchedulerVersion
) -> Situation:
    """Read the cluster and the configuration."""
    configuration = settings(config, version=version, gates=enabled)
    for extender in configuration.extenders:
        source.warn(f"the decisions are without extender {extender.url_prefix}")
    configuration = msgspec.structs.replace(configuration, extenders=())
    plugins = source.plugins
    empty = SimulatedCluster(configuration, plugins=plugins, feature_gates=enabled, version=version)
    kinds = kinds_to_watch(empty.core.profiles)
    classes = WatchedKind(PRIORITY_CLASSES, {}, Required.NO, {"Priority": None})
    cluster, missing = await source.read([*kinds, classes])
    return Situation(
        cluster=cluster,
        missing=missing,
        config=configuration,
        feature_gates=enabled,
        version=version,
        plugins=plugins,
    )


def _print(answer: Answer, output: str) -> None:
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2))
    elif output == "html":
        click.echo(_page(answer), nl=False)
    else:
        print_answer(answer)


def _page(answer: Answer) -> str:
    """Return the cluster of `kubesched-explain`'s page, with a slider over the steps."""
    courses = [
        {
            "title": title,
            "cluster": cluster_data(outcome.cluster),
            "waitingBefore": outcome.waiting_before,
            "steps": outcome.steps,
            "reasons": {pod.pod: pod.reason for pod in outcome.waiting},
        }
        for title, outcome in outcomes(answer)
    ]
    simulation = {"summary": answer.summary, "courses": courses}
    encoded = msgspec.json.encode({"pods": [], "names": [], "simulation": simulation})
    return static_page(encoded, title=f"kubesched-simulate {answer.question}")
