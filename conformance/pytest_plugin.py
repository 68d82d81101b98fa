"""pytest: files of cases are tests where a project asks for it; `cluster` and `scheduler`.

    pytest gpu.yaml gpu.yaml::one-case                   # every case of the file is a test
    pytest --scheduler-command 'kube-scheduler --kubeconfig {kubeconfig} ...' gpu.yaml

    [pytest]
    kubesched_cases = my-cases                           # collected by every `pytest`

    def test_big_pods_need_big_nodes(cluster):
        cluster.node("n1", cpu=4).pod("p", cpu=8).not_bound()

    @pytest.mark.scheduler(plugins=["my_plugin:MyPlugin"])
    def test_my_operator(fake_api, scheduler):
        my_program("--kubeconfig", fake_api.kubeconfig)  # its pods are scheduled, in real time

`cluster` is a server and a scheduler of the test's own in virtual time (see `Cluster`); `scheduler`
runs beside the server of `fake_api`, in real time. The marker sets up the schedulers of both:
`plugins`, `config` (a KubeSchedulerConfiguration), `gates`, `seed`, and `objects`, which exist
before the start. Nothing of the suite is imported before a test needs it.
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from fakeapi.pytest_plugin import FakeApi

    from .format.case import Case
    from .outcome import Outcome
    from .targets.target import TargetKind, TargetOptions
    from .testing.cluster import Cluster
    from .testing.running_scheduler import RunningScheduler

#: A file of cases has these keys; other YAML files are not tests.
_KEYS: Final = (re.compile(rb"^area:", re.MULTILINE), re.compile(rb"^cases:", re.MULTILINE))
_SUFFIXES: Final = frozenset({".yaml", ".yml"})
_KEYWORDS: Final = frozenset({"plugins", "config", "gates", "objects", "seed"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, each with a setting of the same name in pytest's configuration."""
    group = parser.getgroup("scheduler", "scheduler under test (kubesched)")
    group.addoption(
        "--scheduler-command",
        metavar="CMD",
        help="the scheduler under test: a command with {kubeconfig} or {config} in it; by default "
        "our own in the test process, in virtual time",
    )
    group.addoption(
        "--scheduler-plugin",
        metavar="MODULE:CLASS",
        action="append",
        default=[],
        help="a plugin to add to our scheduler's profiles; may be given more than once",
    )
    group.addoption(
        "--scheduler-seed", metavar="N", type=int, default=0, help="makes chance repeatable"
    )
    parser.addini(
        "kubesched_cases",
        "files of cases to collect: paths or patterns below the rootdir (a folder with all in it)",
        type="args",
    )
    parser.addini("scheduler_command", "the setting of --scheduler-command")
    parser.addini("scheduler_plugins", "plugins as of --scheduler-plugin", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse an empty command."""
    config.addinivalue_line(
        "markers",
        "scheduler(plugins=, config=, gates=, objects=, seed=): set up the scheduler of `cluster` "
        "and `scheduler`",
    )
    command = config.getoption("scheduler_command")
    if command is not None and not command.strip():
        raise pytest.UsageError("--scheduler-command: expected a command, got an empty text")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a file of cases of the command line or the settings; no other file is opened."""
    if file_path.suffix not in _SUFFIXES:
        return None
    if not parent.session.isinitpath(file_path) and not _is_chosen(file_path, parent.config):
        return None
    content = file_path.read_bytes()
    if not all(key.search(content) for key in _KEYS):
        return None
    return CaseFile.from_parent(parent, path=file_path)


def _is_chosen(path: Path, config: pytest.Config) -> bool:
    """True if the setting `kubesched_cases` has the file or a folder that it is in."""
    root = config.rootpath
    patterns: list[str] = config.getini("kubesched_cases")
    if not patterns or not path.is_relative_to(root):
        return False
    inside = path.relative_to(root)
    places = [place.as_posix() for place in (inside, *inside.parents)]
    return any(
        fnmatch.fnmatchcase(place, pattern.strip("/") or ".")
        for pattern in patterns
        for place in places
    )


class CaseFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterable[pytest.Item]:
        """Return an item for each case. An error in the file is one line."""
        from .errors import InputError
        from .format.case import load_cases

        try:
            cases = load_cases([self.path])
        except InputError as error:
            raise self.CollectError(str(error)) from error
        for case in cases:
            yield CaseItem.from_parent(self, name=case.name, case=case)


class _CaseFailed(Exception):
    """A case did not pass."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class CaseItem(pytest.Item):
    """A case as a test."""

    def __init__(self, *, case: Case, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._case = case
        self.extra_keyword_matches.update(case.labels)

    def runtest(self) -> None:
        """Run the case. A case that this scheduler cannot run is skipped with the reason."""
        from .outcome import Verdict

        outcome = _run(self._case, _kind(_options(self.config)), _seed(self.config))
        if outcome.verdict is Verdict.SKIPPED:
            pytest.skip(outcome.reason)
        if outcome.is_bad:
            raise _CaseFailed(outcome)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the reason, the pod's state and the scheduler's last lines, no traceback."""
        if not isinstance(excinfo.value, _CaseFailed):
            return super().repr_failure(excinfo, style)
        from .reports.terminal import failure_lines

        return "\n".join(failure_lines(excinfo.value.outcome))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, self._case.line - 1, self._case.id


def _run(case: Case, kind: TargetKind, seed: int) -> Outcome:
    from .run.execution import run_case
    from .targets.quiet import run_quietly

    return run_quietly(run_case(case, kind, seed=seed))


def _kind(options: TargetOptions) -> TargetKind:
    from .errors import InputError
    from .targets import target_kind

    try:
        return target_kind(options)
    except InputError as error:
        raise pytest.UsageError(str(error)) from error


def _options(config: pytest.Config) -> TargetOptions:
    """Return the scheduler of the command line, or else of pytest's configuration."""
    from .targets.target import TargetOptions

    command = config.getoption("scheduler_command") or config.getini("scheduler_command")
    named = config.getoption("scheduler_plugin") or config.getini("scheduler_plugins")
    return TargetOptions(command=command, plugins=(*named,))


def _seed(config: pytest.Config) -> int:
    seed: int = config.getoption("scheduler_seed")
    return seed


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the keywords of the test's marker, with the options in their place."""
    marker = request.node.get_closest_marker("scheduler")
    keywords: dict[str, Any] = {} if marker is None else {**marker.kwargs}
    if unknown := {*keywords} - _KEYWORDS:
        names = ", ".join(sorted(_KEYWORDS))
        raise pytest.UsageError(f"scheduler: expected only {names}, got {', '.join(unknown)}")
    return {"target": _options(request.config), "seed": _seed(request.config), **keywords}


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """An API server and a scheduler of the test's own, in virtual time."""
    from .testing.cluster import Cluster

    with Cluster(**_marked(request)) as running:
        yield running


@pytest.fixture
def scheduler(request: pytest.FixtureRequest, fake_api: FakeApi) -> Iterator[RunningScheduler]:
    """A scheduler beside the API server of `fake_api`, in real time."""
    from .testing.running_scheduler import RunningScheduler

    with RunningScheduler(fake_api.server, **_marked(request)) as running:
        yield running
