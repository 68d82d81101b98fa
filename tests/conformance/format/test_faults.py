"""Faults in cases: the requests they affect, idleness despite them, their effect on verdicts."""

import textwrap
from pathlib import Path

import pytest

from conformance.errors import InputError
from conformance.format.faults import aimed
from conformance.outcome import Outcome, Verdict

from .. import schedulers
from ..cases import in_process, run_one, write_cases

BINDINGS = "{verb: create, resource: pods/binding}"


def run(tmp_path: Path, steps: str, faults: str = "") -> Outcome:
    """The outcome of a case with one node, for a scheduler that binds every pod once."""
    text = "area: tiny\ncases:\n- name: c\n  source: s\n  cluster: [node: {name: a}]\n"
    if faults:
        text += f"  faults: [{faults}]\n"
    text += "  steps:\n" + textwrap.indent(textwrap.dedent(steps).strip("\n"), "  ")
    (case,) = write_cases(tmp_path, text)
    return run_one(case, in_process(schedulers.binds_all_to_a))


def test_a_request_that_is_held_waits_for_the_case_and_not_for_time(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        f"""
        - inject: [{{name: held, match: {BINDINGS}, delay: {{}}}}]
        - create: [pod: {{name: p}}]
        - expect: {{pod: p, not_bound: true}}
        - expect: {{fault: held, injected: 1}}
        - clear_faults:
        - expect: {{pod: p, bound_to: a}}
        - expect: {{pod: p, condition: {{type: PodScheduled, transitioned: {{at_most: 0s}}}}}}
        """,
    )
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")


def test_a_request_that_is_delayed_moves_time(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        f"""
        - inject: [{{match: {BINDINGS}, delay: {{seconds: 5}}}}]
        - create: [pod: {{name: p}}]
        - expect:
            pod: p
            condition: {{type: PodScheduled, transitioned: {{at_least: 5s, at_most: 5s}}}}
        """,
    )
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")


def test_a_silent_watch_is_not_waited_for(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        - inject: [{name: silent, match: {resource: pods, event: ADDED}, stall: {}}]
        - create: [pod: {name: p}]
        - expect: {pod: p, not_bound: true}
        - clear_faults: [silent]
        - expect: {pod: p, bound_to: a}
        - expect: {pod: p, condition: {type: PodScheduled, transitioned: {at_most: 0s}}}
        """,
    )
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")


def test_the_suite_itself_is_spared(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        - inject: [{name: all, answer: {code: 500}}, {name: gone, outage: {}}]
        - create: [pod: {name: p}]
        - expect: {pod: p, not_bound: true}
        """,
    )
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")


def test_faults_are_there_when_the_scheduler_starts(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        - create: [pod: {name: p}]
        - expect: {fault: seen, injected: 1}
        - expect: {pod: p, not_bound: true}
        """,
        "{name: seen, match: {resource: pods, event: ADDED}, lose: {}}",
    )
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")


def test_a_scheduler_that_ignores_failures_is_detected(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        f"""
        - inject: [{{match: {BINDINGS}, when: {{times: 1}}, answer: {{code: 500}}}}]
        - create: [pod: {{name: p}}]
        - advance: 1m
        - expect: {{pod: p, bound_to: a}}
        """,
    )
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason == "steps[3]: pod p: expected on a, is not bound"


def test_a_fault_that_was_not_injected_is_reported(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        - inject: [{name: never, match: {verb: patch}, reset: {}}]
        - expect: {fault: never, injected: {at_least: 1}}
        """,
    )
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason == "steps[1]: fault never: expected at least 1 times injected, found 0"


def test_a_fault_that_is_not_set_cannot_be_cleared(tmp_path: Path) -> None:
    outcome = run(tmp_path, "- clear_faults: [nobody]")
    assert outcome.verdict is Verdict.ERROR
    assert "no fault is called 'nobody'" in outcome.reason


def test_faults_that_name_no_client_are_aimed_at_the_scheduler() -> None:
    mine = {"match": {"client": "me"}, "answer": {"code": 500}}
    (everybody, only_me, server) = aimed([{"answer": {"code": 500}}, mine, {"compact": {}}])
    assert everybody["match"] == {"except_client": "kubesched-conformance"}
    assert only_me == mine
    assert server == {"compact": {}}


def test_faults_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match=r"faults\[0\].answer: code is missing"):
        aimed([{"answer": {}}])
