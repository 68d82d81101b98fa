"""The commands `kubesched-conformance capture` and `kubesched-conformance shrink`.

Exit status: 0 if a case was written; 2 for invalid input or a server that refuses, with one line.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from typing import TYPE_CHECKING, Final

import click

from ..api import ApiClient
from ..errors import InputError, RequestFailed
from ..format.case import load_cases
from ..format.resources import part
from ..format.writing import write_case
from ..judge.referee import Question, answers_to
from ..options import FILE, PATH, BadInput, SuiteCommand
from ..outcome import Verdict
from ..run.execution import run_case
from ..targets import target_kind
from ..targets.options import connection_options, seed_option, target_options
from ..targets.quiet import run_quietly
from ..targets.target import TargetOptions, read_configuration
from .build import Captured, captured, document_of, key_of
from .cluster import read_objects
from .shrink import Limits, interest_in, shrunk

if TYPE_CHECKING:
    from pathlib import Path

    from ..api import Json
    from ..connection import Connection
    from ..format.case import Case
    from ..outcome import Outcome

_CHECK_SECONDS: Final = 600.0


@click.command(cls=SuiteCommand)
@connection_options
@click.option(
    "--pod",
    "pods",
    metavar="[NAMESPACE/]NAME",
    multiple=True,
    help="The pod of interest; may be given again. Without it every pod that waits for a node.",
)
@click.option("--config", metavar="FILE", type=PATH, help="The scheduler's configuration.")
@click.option("-o", "--output", metavar="FILE", type=FILE, required=True, help="The case file.")
@click.option(
    "--anonymise/--no-anonymise",
    default=True,
    show_default=True,
    help="Replace names, labels and images by pseudonyms.",
)
@click.option(
    "--check/--no-check",
    default=True,
    show_default=True,
    help="Run the case with our scheduler, and print whether it holds.",
)
def capture(
    *,
    connection: Connection,
    pods: tuple[str, ...],
    config: Path | None,
    output: Path,
    anonymise: bool,
    check: bool,
) -> None:
    """Save the part of a cluster that bears on scheduling as a case, and nothing else of it."""
    try:
        settings = None if config is None else read_configuration(config, option="--config")
        names = [name if "/" in name else f"default/{name}" for name in pods]
        part = captured(
            asyncio.run(_objects(connection)),
            names=names,
            config=settings,
            anonymises=anonymise,
        )
        part = _with_ties(part)
        document = document_of(part, _slug(output.stem))
        case = _write(output, document)
    except RequestFailed as error:
        raise BadInput(str(error)) from error
    number = len(part.cluster)
    click.echo(f"{output}: {number} objects, then {len(part.waiting)} more, each with its verdict")
    if check:
        work = run_case(case, target_kind(TargetOptions()), seed=0, timeout_seconds=_CHECK_SECONDS)
        _print_check(run_quietly(work))


def _slug(text: str) -> str:
    """Return a text as the name of a case."""
    return "-".join(re.findall("[a-z0-9]+", text.lower())) or "captured"


async def _objects(connection: Connection) -> list[Json]:
    async with ApiClient(connection) as api:
        return await read_objects(api)


def _with_ties(part: Captured) -> Captured:
    """Let a bound pod be on any of the nodes that are as good as its own, by kubesched-explain."""
    waiting = [_with_uid(item) for item in part.waiting]
    pods = {key_of(item): item for item in waiting if item["kind"] == "Pod"}
    others = [item for item in waiting if item["kind"] != "Pod"]
    bound = [item for item in part.expectations if "bound_to" in item]
    if not bound:
        return part
    questions = [
        Question(
            objects=[*map(_with_uid, part.cluster), *others],
            pod=pods[_full(str(item["pod"]))],
            config=part.config,
            gates=part.gates,
            plugins=(),
        )
        for item in bound
    ]
    answers = asyncio.run(answers_to(questions)).answers
    best = {
        str(item["pod"]): answer.best
        for item, answer in zip(bound, answers, strict=True)
        if answer is not None
    }
    expectations = [
        {"pod": item["pod"], "bound_to_one_of": list(ties)}
        if len(ties := best.get(str(item["pod"]), ())) > 1 and item.get("bound_to") in ties
        else item
        for item in part.expectations
    ]
    return dataclasses.replace(part, expectations=expectations)


def _with_uid(obj: Json) -> Json:
    """Return an object with a uid, without which kubesched-explain takes no pod."""
    metadata = part(obj, "metadata")
    return {**obj, "metadata": {**metadata, "uid": f"{obj['kind']}/{key_of(obj)}"}}


def _full(name: str) -> str:
    return name if "/" in name else f"default/{name}"


@click.command(cls=SuiteCommand)
@click.argument("file", metavar="CASE", type=PATH)
@click.option(
    "--case",
    "name",
    metavar="NAME",
    default="",
    help="The name of the case, if the file has several.",
)
@click.option("-o", "--output", metavar="FILE", type=FILE, required=True, help="The case file.")
@target_options
@seed_option
@click.option(
    "--attempts-max",
    metavar="N",
    type=click.IntRange(min=1),
    default=2000,
    show_default=True,
    help="The number of smaller cases to try.",
)
@click.option(
    "--time-max",
    "time_seconds_max",
    metavar="SECONDS",
    type=click.FloatRange(min=1),
    default=600,
    show_default=True,
    help="Stop after this time, with the smallest case so far.",
)
def shrink(
    *,
    file: Path,
    name: str,
    output: Path,
    target: TargetOptions,
    seed: int,
    attempts_max: int,
    time_seconds_max: float,
) -> None:
    """Make a case smaller while its outcome stays the same: the failure, or the expectations."""
    limits = Limits(attempts_max=attempts_max, seconds_max=time_seconds_max)
    area, raw = _raw_case(file, name)
    interest = interest_in(raw, area, target_kind(target), seed=seed, seconds_max=time_seconds_max)
    result = shrunk(interest, limits, on_progress=lambda text: click.echo(text, err=True))
    _write(output, {"area": area, "cases": [result.raw]})
    click.echo(f"Kept: {interest.described}")
    click.echo(f"{output}: {result.summary}")


def _raw_case(file: Path, name: str) -> tuple[str, Json]:
    """Return the area and the content of a case. Raises InputError."""
    cases = [case for case in load_cases([file]) if name in ("", case.name)]
    if len(cases) != 1:
        names = ", ".join(case.name for case in cases) or "none"
        raise InputError(f"{file}: expected one case, or its name in --case; there is {names}")
    return cases[0].area, cases[0].raw


def _write(path: Path, document: Json) -> Case:
    """Write a case file that can be loaded, and return its case. Raises InputError."""
    try:
        return write_case(path, document)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


def _print_check(outcome: Outcome) -> None:
    if outcome.verdict is Verdict.PASSED:
        click.echo("Our scheduler decides the same.")
        return
    click.echo(f"Our scheduler decides otherwise: {outcome.reason}")
    for line in outcome.details:
        click.echo(f"    {line}")
