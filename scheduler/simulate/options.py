"""The options that the sub-commands about a cluster have in common."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from scheduler.assembly.profiles import find_plugins_in_working_directory
from scheduler.assembly.watched_kinds import WatchedKind, kinds_to_watch
from scheduler.client.informer import Required
from scheduler.config import ConfigError, EffectiveVersion, SchedulerVersion
from scheduler.config.feature_gates import enabled_gates, parse_settings
from scheduler.explain.manifests import PRIORITY_CLASSES
from scheduler.explain.source import Source, one_line_errors, scheduler_version, settings
from scheduler.simulate.cluster import SimulatedCluster
from scheduler.simulate.pages import answer_page
from scheduler.simulate.simulation import Situation
from scheduler.simulate.text import print_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scheduler.config import FeatureGates
    from scheduler.simulate.answers import Answer

_PROGRAM: Final = "kubesched-simulate"

_OPTIONS: Final = (
    click.option(
        "--manifests",
        metavar="FILE|-",
        multiple=True,
        type=click.Path(path_type=Path),
        help="YAML or JSON with the cluster; - is standard input.",
    ),
    click.option("--kubeconfig", metavar="FILE", default="", help="Read an API server's cluster."),
    click.option("--master", metavar="URL", default="", help="The API server's address."),
    click.option(
        "--config", metavar="FILE", type=click.Path(path_type=Path), help="Configuration."
    ),
    click.option("--plugin", metavar="MODULE:CLASS", multiple=True, help="A plugin of your own."),
    click.option(
        "--feature-gates",
        metavar="NAME=BOOL,...",
        multiple=True,
        help="Feature gates that differ from the defaults.",
    ),
    scheduler_version,
    click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "html"]),
        default="table",
        show_default=True,
        help="Tables, JSON, or a page of HTML.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The values of the common options."""

    source: Source
    config: Path | None
    version: SchedulerVersion
    gates: FeatureGates
    output: str

    async def situation(self) -> Situation:
        """Read the cluster and the configuration."""
        plugins, version, gates = self.source.plugins, self.version, self.gates
        configuration = settings(self.config, version=version, gates=gates)
        for extender in configuration.extenders:
            self.source.warn(f"the decisions are without extender {extender.url_prefix}")
        configuration = msgspec.structs.replace(configuration, extenders=())
        empty = SimulatedCluster(
            configuration, plugins=plugins, feature_gates=gates, version=version
        )
        kinds = kinds_to_watch(empty.core.profiles)
        classes = WatchedKind(PRIORITY_CLASSES, {}, Required.NO, {"Priority": None})
        cluster, missing = await self.source.read([*kinds, classes])
        return Situation(
            cluster=cluster,
            missing=missing,
            config=configuration,
            feature_gates=gates,
            version=version,
            plugins=plugins,
        )

    def answer(self, work: Callable[[Situation], Coroutine[Any, Any, Answer]]) -> None:
        """Print the answer to a question, or one line about an error in the input."""

        async def read_and_answer() -> Answer:
            return await work(await self.situation())

        with one_line_errors(_PROGRAM, self.config):
            find_plugins_in_working_directory()
            answer = asyncio.run(read_and_answer())
        for warning in answer.warnings:
            self.source.warn(warning)
        if self.output == "json":
            click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2))
        elif self.output == "html":
            click.echo(answer_page(answer), nl=False)
        else:
            print_answer(answer)


def about_a_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Add the common options, and the parameter `inputs` with their values."""

    @functools.wraps(command)
    def with_inputs(
        *,
        manifests: tuple[Path, ...],
        kubeconfig: str,
        master: str,
        config: Path | None,
        plugin: tuple[str, ...],
        feature_gates: tuple[str, ...],
        version: SchedulerVersion,
        output: str,
        **others: object,
    ) -> None:
        source = Source.given(_PROGRAM, manifests, kubeconfig, master, plugin)
        inputs = Inputs(
            source=source,
            config=config,
            version=version,
            gates=_gates(feature_gates, version),
            output=output,
        )
        command(inputs=inputs, **others)

    decorated: Callable[..., None] = with_inputs
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _gates(values: tuple[str, ...], version: SchedulerVersion) -> FeatureGates:
    try:
        return enabled_gates(parse_settings(values), EffectiveVersion.of(version))
    except ConfigError as error:
        raise click.UsageError(f"--feature-gates: {error}") from error
