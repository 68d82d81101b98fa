"""Cases as values. The format of a file of cases is `schema.json` and README.md.

A file is read, validated against the schema, and converted to these types, which have the schema's
names. An error in a file is one line: the file, the case, the field and the expected value.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..api import Json
from ..errors import InputError
from ..extender import Extender
from ..outcome import Aspect, Level, Outcome, Verdict
from .expectation import Expectation
from .faults import aimed
from .known_bug import KnownBug, known_bug_of
from .objects import Item
from .steps import (
    FIRST_SCHEDULER,
    Answer,
    Inject,
    Restart,
    Start,
    Step,
    Stop,
    check_objects,
    in_order,
    steps_of,
)
from .validation import read_valid_yaml, read_yaml
from .version import Version, is_empty_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: The suite's own cases.
BUILT_IN: Final = Path(__file__).parent.parent / "cases"

_SUFFIXES: Final = frozenset({".yaml", ".yml"})
#: A command runs in real time; a case that waits longer than this has the label `slow`.
_SLOW_SECONDS: Final = 20.0


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A case that is ready to run. `origin` and `line` are its place.

    The case holds for schedulers of the versions from `since` to `until`, both included. `labels`
    come from the file and from the content (`_labels_of`).
    """

    name: str
    area: str
    source: str
    origin: str
    line: int = 0
    #: The lines of the steps by their places, and the text of the case; both only of a file.
    step_lines: dict[str, int] = {}
    text: str = ""
    steps: tuple[Step, ...]
    cluster: tuple[Item, ...] = ()
    faults: tuple[Json, ...] = ()
    config: Json | None = None
    gates: dict[str, bool] = {}
    plugins: tuple[str, ...] = ()
    extenders: tuple[Extender, ...] = ()
    description: str = ""
    labels: frozenset[str] = frozenset()
    level: Level = Level.CORE
    feature: str = ""
    since: Version | None = None
    until: Version | None = None
    known_bug: KnownBug | None = None
    exact_time: bool = False
    raw: Json = {}

    @property
    def id(self) -> str:
        """The identifier `area/name`."""
        return f"{self.area}/{self.name}"

    @property
    def needs_config(self) -> bool:
        """True if the scheduler needs a configuration."""
        return self.config is not None or bool(self.extenders)

    @property
    def seconds(self) -> float:
        """The total time that must pass while the case runs."""
        return sum(step.seconds for step in self.steps)

    @property
    def expectations(self) -> Iterator[Expectation]:
        """All expectations, each expectation of a repetition once."""
        for step in in_order(self.steps):
            if isinstance(step.action, Expectation):
                yield step.action

    @property
    def reads_metrics(self) -> bool:
        """True if the case needs the scheduler's own metrics."""
        return any(expected.reads_metrics for expected in self.expectations)

    @property
    def starts_schedulers(self) -> bool:
        """True if a step starts a scheduler beside another one."""
        return any(isinstance(step.action, Start) for step in in_order(self.steps))

    @property
    def words(self) -> frozenset[str]:
        """The names by which the case can be selected: labels, level, feature and area."""
        own = {self.level.value, self.area, self.feature} - {""}
        return self.labels | own

    def outcome(
        self,
        verdict: Verdict,
        *,
        seconds: float = 0.0,
        reason: str = "",
        details: tuple[str, ...] = (),
        log: tuple[str, ...] = (),
        aspects: dict[Aspect, Verdict] | None = None,
        step: str = "",
    ) -> Outcome:
        """Return an outcome of this case. `step` is the place of the step that did not hold."""
        outcome = Outcome(
            area=self.area,
            name=self.name,
            source=self.source,
            origin=self.origin,
            line=self.line,
            description=self.description,
            labels=self.labels,
            level=self.level,
            feature=self.feature,
            verdict=verdict,
            aspects=aspects or {},
            seconds=seconds,
            reason=reason,
            details=details,
            log=log,
            step=step,
        )
        return self.located(outcome)

    def located(self, outcome: Outcome) -> Outcome:
        """Return an outcome of this case with the line of its step, and the text of the case."""
        line = self.step_lines.get(outcome.step, 0)
        return msgspec.structs.replace(outcome, step_line=line, text=self.text)


def case_of(raw: Json, *, area: str, origin: str, line: int = 0) -> Case:
    """Convert validated data of a file to a case. Raises InputError."""
    name = str(raw.get("name", ""))
    try:
        case = Case(
            name=name,
            area=area,
            origin=origin,
            line=line,
            source=str(raw["source"]),
            description=str(raw.get("description", "")),
            labels=msgspec.convert(raw.get("labels", []), frozenset[str]),
            level=Level(raw.get("level", Level.CORE.value)),
            feature=str(raw.get("feature", "")),
            since=_version(raw, "since"),
            until=_version(raw, "until"),
            known_bug=known_bug_of(raw),
            exact_time=raw.get("exact_time") is True,
            config=msgspec.convert(raw.get("config"), Json | None),
            gates=msgspec.convert(raw.get("gates", {}), dict[str, bool]),
            plugins=msgspec.convert(raw.get("plugins", []), tuple[str, ...]),
            extenders=msgspec.convert(raw.get("extenders", []), tuple[Extender, ...]),
            cluster=msgspec.convert(raw.get("cluster", []), tuple[Item, ...]),
            faults=tuple(aimed(msgspec.convert(raw.get("faults", []), list[Json]))),
            steps=steps_of(msgspec.convert(raw["steps"], list[Json]), "steps"),
            raw=raw,
        )
        check_objects(case.cluster, "cluster")
        _check_metadata(case)
        _check_extenders(case)
        _check_windows(case.steps)
        _check_schedulers(case)
    except (InputError, msgspec.ValidationError) as error:
        raise InputError(f"{origin}: case {name}: {error}") from error
    return msgspec.structs.replace(case, labels=case.labels | _labels_of(case))


def _version(raw: Json, field: str) -> Version | None:
    return Version.parse(str(raw[field])) if field in raw else None


def _labels_of(case: Case) -> frozenset[str]:
    """Return the labels that follow from the content of a case."""
    actions = [step.action for step in in_order(case.steps)]
    follows = {
        "config": case.config is not None,
        "exact-time": case.exact_time,
        "extenders": bool(case.extenders),
        "faults": bool(case.faults) or any(isinstance(action, Inject) for action in actions),
        "gates": bool(case.gates),
        "known-bug": case.known_bug is not None,
        "metrics": case.reads_metrics,
        "plugins": bool(case.plugins),
        "restart": any(isinstance(action, Restart | Start | Stop) for action in actions),
        "slow": case.seconds > _SLOW_SECONDS,
    }
    return frozenset(label for label, holds in follows.items() if holds)


def _check_metadata(case: Case) -> None:
    """Check the fields that go together. Raises InputError."""
    if (case.level is Level.EXTENDED) != bool(case.feature):
        raise InputError("expected a feature for the level extended, and only for it")
    if case.since is not None and case.until is not None and is_empty_range(case.since, case.until):
        raise InputError(f"until: expected {case.since} or later, got {case.until}")


def _check_extenders(case: Case) -> None:
    """Check that the extenders that the steps name exist. Raises InputError."""
    names = [extender.name for extender in case.extenders]
    if len({*names}) < len(names):
        raise InputError("extenders: expected different names")
    for step in in_order(case.steps):
        named = step.action.extender if isinstance(step.action, Answer | Expectation) else None
        if named is not None and named not in names:
            raise InputError(f"{step.where}: expected the name of an extender, got {named}")


def _check_windows(steps: Iterable[Step]) -> None:
    """Check that a step precedes each look at the metrics, which count from the last look."""
    for step in in_order(steps):
        if step.does_something:
            return
        if isinstance(step.action, Expectation) and step.action.reads_moves:
            raise InputError(f"{step.where}.expect: expected a step before it that does something")


def _check_schedulers(case: Case) -> None:
    """Check that steps stop schedulers that run, and start others. Raises InputError."""
    running = {FIRST_SCHEDULER}
    for step in in_order(case.steps):
        action = step.action
        if isinstance(action, Start):
            if action.name in running:
                raise InputError(f"{step.where}.start: the scheduler {action.name} runs already")
            if case.reads_metrics:
                raise InputError(
                    f"{step.where}.start: a case with several schedulers cannot read metrics, "
                    "of which each has its own"
                )
            running.add(action.name)
        elif isinstance(action, Stop | Restart):
            name = action.name if isinstance(action, Stop) else FIRST_SCHEDULER
            if name not in running:
                names = ", ".join(sorted(running)) or "none"
                raise InputError(f"{step.where}: no scheduler {name} runs, those that run: {names}")
            if isinstance(action, Stop):
                running.remove(name)


def load_cases(paths: Iterable[Path]) -> list[Case]:
    """Load the cases in files and directories, ordered by area and file. Raises InputError."""
    cases: list[Case] = []
    seen: dict[str, str] = {}
    for file in case_files(paths):
        for case in _load_file(file):
            if case.id in seen:
                raise InputError(
                    f"{file}: case {case.name}: the area {case.area} has a case of that name "
                    f"in {seen[case.id]}"
                )
            seen[case.id] = str(file)
            cases.append(case)
    return cases


def case_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files of cases in files and directories. Raises InputError."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
            if not inside:
                raise InputError(f"{path}: no .yaml file in it or below it")
            files += inside
        else:
            files.append(path)
    return files


def _load_file(file: Path) -> Sequence[Case]:
    try:
        state = file.stat()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error
    return _loaded(file, state.st_mtime_ns, state.st_size, state.st_ino)


@functools.lru_cache(maxsize=256)
def _loaded(file: Path, *_: int) -> Sequence[Case]:
    """Load a file; one that has not changed is read once in a process."""
    # `lint` validates the built-in files; here it would make a short run a third slower.
    document = read_yaml(file) if file.is_relative_to(BUILT_IN) else read_valid_yaml(file)
    content = msgspec.convert(document.content, Json)
    defaults = msgspec.convert(content.get("defaults", {}), Json)
    raw_cases = msgspec.convert(content["cases"], list[Json])
    area, origin = str(content["area"]), str(file)
    return [
        msgspec.structs.replace(
            case_of(_merged(raw, defaults), area=area, origin=origin, line=source.line),
            step_lines=source.step_lines,
            text=source.text,
        )
        for raw, source in zip(raw_cases, document.sources, strict=True)
    ]


def _merged(raw: Json, defaults: Json) -> Json:
    """Return a case with the defaults of its file; labels are added to the file's."""
    if raw.get("level") == Level.CORE.value:
        defaults = {name: value for name, value in defaults.items() if name != "feature"}
    merged = {**defaults, **raw}
    if "labels" in defaults and "labels" in raw:
        lists = (defaults["labels"], raw["labels"])
        merged["labels"] = [label for labels in lists for label in msgspec.convert(labels, list)]
    return merged
