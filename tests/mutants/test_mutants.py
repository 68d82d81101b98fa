"""The list of faults, and one fault that a case notices and one that it does not."""

import ast
import sys

import pytest

from conformance.format.case import BUILT_IN, load_cases
from conformance.format.selection import select
from tests.mutants import faults
from tests.mutants.trial import attempt
from tests.thoroughness import examples

CASE = "filter/cordoned-node-is-left-out"
SOURCE = '''
LIMIT: int = 3

class Queue:
    """A docstring."""

    @cache(maxsize=2)
    def take(self, pods: list[1]) -> int:
        _log.info("taken", 1)
        if not pods and LIMIT > 2:
            raise ValueError(1)
        self.taken += len(pods)
        return sum(pod.size for pod in pods if pod.fits)
'''


def described(source: str) -> list[tuple[str, str]]:
    return [(f.id.partition(":")[2], f.before) for f in faults.faults_of(source, "queue.py")]


def test_faults_are_small_changes_of_what_decides() -> None:
    assert described(SOURCE) == [
        ("2:int-plus-1", "3"),
        ("10:negate-if", "not pods and LIMIT > 2"),
        ("10:and-or", "not pods and LIMIT > 2"),
        ("10:gt-ge", "LIMIT > 2"),
        ("10:int-plus-1", "2"),
        ("12:drop-assign", "self.taken += len(pods)"),
        ("12:add-sub", "self.taken += len(pods)"),
        ("13:drop-filter", "pod.fits"),
    ]


def test_a_planted_fault_changes_its_place_only() -> None:
    lines = ast.unparse(ast.parse(SOURCE)).splitlines()
    for fault in faults.faults_of(SOURCE, "queue.py"):
        faulty = ast.unparse(faults.planted(SOURCE, fault)).splitlines()
        assert len(faulty) == len(lines)
        assert sum(a != b for a, b in zip(faulty, lines, strict=True)) == 1


def test_faults_on_one_line_have_different_names() -> None:
    assert [name for name, _ in described("LIMITS = (1, 2)\n")] == [
        "1:int-plus-1",
        "1:int-plus-1:2",
    ]


def test_the_sample_depends_on_the_seed_only() -> None:
    sample = faults.sample(200, 1)
    assert sample == faults.sample(200, 1)
    assert sample[:50] == faults.sample(50, 1)
    assert sample != faults.sample(200, 2)
    assert len({fault.id for fault in sample}) == 200
    assert {fault.file.rpartition("/")[0].split("/")[1] for fault in sample} == {
        "plugins",
        "queue",
        "preemption",
    }


def test_faults_of_the_sample_compile() -> None:
    for fault in faults.sample(200, 1)[: examples(200)]:
        source = (faults.ROOT / fault.file).read_text(encoding="utf-8")
        compile(faults.planted(source, fault), fault.file, "exec")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize(("operator", "result"), [("negate-if", "noticed"), ("or-and", "survived")])
def test_a_case_notices_a_fault_but_not_a_harmless_one(operator: str, result: str) -> None:
    """Negated, the condition lets pods on cordoned nodes; `and` is right without tolerations."""
    file = "scheduler/plugins/node_unschedulable.py"
    source = (faults.ROOT / file).read_text(encoding="utf-8")
    (fault,) = [
        fault
        for fault in faults.faults_of(source, file)
        if fault.id.endswith(operator)
        and fault.before == "rejections is None or is_tolerated(_TAINT, pod.spec.tolerations)"
    ]
    (case,) = select(load_cases([BUILT_IN / "filter" / "node_unschedulable.yaml"]), CASE)
    trial = attempt(fault, [case])
    assert (trial.result, trial.ran) == (result, 1), trial.reason
    assert trial.case == (CASE if result == "noticed" else "")
