"""Each block of conformance/README.md is run, here or by the test that `_ELSEWHERE` names.

The commands are run as they are written, but over few cases, in this process, and for a scheduler
that is installed.
"""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

import conformance
from conformance.outcome import Verdict
from conformance.targets.target import TargetOptions
from tests.newcomer import run, run_here
from tests.thoroughness import thorough_only

from .cases import run_one, write_cases

pytestmark = pytest.mark.slow

_ROOT: Final = Path(__file__).parent.parent.parent
_TEXT: Final = Path(conformance.__file__).with_name("README.md").read_text(encoding="utf-8")
_FEW: Final = "-k status/no-nodes-at-all -k filter/not-enough-cpu"

#: The beginning of each block that another test runs, and the test.
_ELSEWHERE: Final = {
    "area: example": "tests/integration/test_conformance_in_process.py",
    "from conformance.testing import Cluster": "tests/conformance/testing/test_cluster.py",
    "from hypothesis import given": "tests/conformance/strategies/test_readme.py",
    "from functools import partial": "tests/conformance/strategies/test_readme.py",
    "from scheduler import ActionType": "tests/conformance/strategies/test_readme.py",
    "from collections.abc import Iterator": "tests/conformance/strategies/test_readme.py",
    "apiVersion: rbac.authorization.k8s.io/v1": "tests/conformance/targets/test_cluster.py",
    "tox -e upstream": "tests/integration/test_conformance_results.py",
    "apiVersion: kubescheduler": "tests/conformance/differential/test_readme.py",
    "apiVersion: v1": "tests/conformance/differential/test_readme.py",
    "kubesched-conformance diff": "tests/conformance/differential/test_readme.py",
    "First divergence": "tests/conformance/differential/test_readme.py",
    "kubesched-conformance capture": "tests/conformance/differential/test_readme.py",
    "kubesched-conformance hunt": "tests/conformance/hunt/test_hunt.py",
    "kubesched-conformance upgrade": "tests/conformance/upgrade/test_upgrade.py",
}


class _Block(NamedTuple):
    language: str
    text: str

    @property
    def begin(self) -> str:
        return self.text.split("\n", 1)[0]


def _blocks() -> list[_Block]:
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", _TEXT, re.DOTALL | re.MULTILINE)
    return [_Block(match[1], match[2]) for match in found]


_BLOCKS: Final = [
    block for block in _blocks() if not any(block.begin.startswith(begin) for begin in _ELSEWHERE)
]
(_MACHINES,) = (block.text for block in _BLOCKS if block.language == "python")
_COMMANDS: Final = [block.text for block in _BLOCKS if not block.language]
_STEPS: Final = [block.text for block in _BLOCKS if block.language == "yaml"]


def _lines(block: str) -> list[str]:
    """Return the commands of a block without their comments; one may take several lines."""
    parts = re.split(r"^(?=\S)", re.sub(r"\s+# .*", "", block), flags=re.MULTILINE)
    lines = [" ".join(part.split()) for part in parts]
    return [line for line in lines if line]


def test_each_block_has_a_test() -> None:
    begins = [block.begin for block in _blocks()]
    for begin, test in _ELSEWHERE.items():
        assert any(each.startswith(begin) for each in begins), begin
        assert (_ROOT / test).exists()
    assert (len(_COMMANDS), len(_STEPS)) == (6, 4)


#: Files that the commands name.
_FILES: Final = {
    "my_plugin.py": """
from scheduler import Plugin


class MyPlugin(Plugin):
    def score(self, state, pod, node):
        return 0
""",
    "my-cases/mine.yaml": """
area: mine
cases:
- name: fits
  source: our handbook
  cluster: [node: {name: a}, pod: {name: web}]
  steps:
  - expect: {pod: web, bound_to: a}
""",
    "other.yaml": "podMaxBackoffSeconds: 20",
}
_CLUSTER: Final = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: a}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}
- {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: large}
  spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "5"}}}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the commands name."""
    for name, text in _FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def beside_cluster(folder: Path, serve: Callable[[Path, str], None]) -> Callable[[str], str]:
    """Return a function that starts the cluster at `~/.kube/config` for a command that reads it."""

    def prepare(line: str) -> str:
        if "kubeconfig" in line:
            serve(folder, _CLUSTER)
            (folder / ".kube").mkdir()
            (folder / ".kube" / "config").write_bytes((folder / "kubeconfig").read_bytes())
        return line

    return prepare


def _narrowed(line: str) -> str:
    """Return a command with few cases, for kubesched in kube-scheduler's place."""
    line = line.replace("kube-scheduler --config", "kubesched --config")
    line = line.replace("--kubeconfig FILE", "--kubeconfig kubeconfig")
    if "--executor" not in line and (" run" in line or " fuzz" in line):
        line += " --workers 0"
    if " run" in line and "--cases" not in line and " -l " not in line:
        line = re.sub(r"-k filter/ ", "", line) + f" {_FEW}"
    if " -l " in line:
        line += " -k preemption/never"
    if " diff " in line:
        line += " -k status/no-nodes-at-all"
    line = re.sub(r"--examples \d+", "--examples 1", line)
    if "--target-command" in line and " fuzz" in line:
        line += " --examples 1 --invariants no_overcommit"
    return line + " --examples 1" if " fuzz" in line and "--examples" not in line else line


@pytest.mark.parametrize("line", _lines(_COMMANDS[0]))
def test_the_first_commands_run(
    folder: Path, beside_cluster: Callable[[str], str], line: str
) -> None:
    assert run_here(beside_cluster(_narrowed(line)), folder)


def test_reports_are_written_merged_and_compared(folder: Path) -> None:
    written, merged, compared = _lines(_COMMANDS[1])
    run_here(_narrowed(written), folder)
    for number in (1, 2):
        shard = f"kubesched-conformance run --shard {number}/2 --report shard-{number}.json"
        run_here(_narrowed(shard), folder)
    run_here(merged, folder)
    assert "**2 passed**" in (folder / "whole.md").read_text(encoding="utf-8")
    (folder / "old.json").write_bytes((folder / "new.json").read_bytes())
    assert "0 worse" in run_here(compared, folder)


@pytest.mark.parametrize("line", _lines(_COMMANDS[2]))
def test_fuzz_runs(folder: Path, beside_cluster: Callable[[str], str], line: str) -> None:
    assert run_here(beside_cluster(_narrowed(line)), folder)


@thorough_only
# Dask opens files without naming an encoding, also while it is imported.
@pytest.mark.filterwarnings("ignore:'encoding' argument not specified:EncodingWarning")
def test_fuzz_runs_on_an_executor(folder: Path) -> None:
    from distributed import LocalCluster

    (line,) = _lines(_COMMANDS[3])
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        machines = _MACHINES.replace("tcp://dask-scheduler:8786", cluster.scheduler_address)
        (folder / "machines.py").write_text(machines, encoding="utf-8")
        assert "0 broken" in run_here(_narrowed(line), folder)


@thorough_only  # tests/integration/test_determinism.py runs a part of the suite twice
def test_two_runs_are_the_same(folder: Path) -> None:
    block = _COMMANDS[4].replace(" run --event-log", f" run {_FEW} --event-log")
    assert "the same" in run(block, folder)


def test_a_running_cluster_is_judged_and_cleaned(
    folder: Path, beside_cluster: Callable[[str], str]
) -> None:
    judged, cleaned = _lines(beside_cluster(_COMMANDS[5]))
    few = "-k restarts/many-restarts-lose-no-pod"
    judged = judged.replace("https://127.0.0.1:10259", "http://127.0.0.1:1")
    assert "1 skipped" in run_here(f"{judged} {few}", folder, status=1)
    run_here(cleaned, folder)


@pytest.mark.parametrize("text", _STEPS)
def test_steps_of_the_text_hold(tmp_path: Path, text: str) -> None:
    """Put the lines into a case with the nodes and the pod that they are about."""
    cluster = "[node: {name: a}, node: {name: b}, node: {name: c}]"
    if "extenders" not in text:
        cluster = "[node: {name: a}]"
    first = ""
    if "requeued_by" in text:
        cluster = "[node: {name: a}, pod: {name: web, node_selector: {disk: ssd}}]"
        first = "  - expect: {pod: web, not_bound: true, attempts: 1}\n"
    own = text if "  steps:" in text else f"  steps:\n{first}{text}"
    head = f"area: text\ncases:\n- name: text\n  source: README.md\n  cluster: {cluster}\n"
    (case,) = write_cases(tmp_path, head + own)
    level = logging.getLogger().level
    outcome = run_one(case, TargetOptions())
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")
    # Also after two schedulers of which the one that started first ended first.
    assert logging.getLogger().level == level
