"""Virtual time and idleness: waiting for hours is idle, work in flight is finished."""

import textwrap
from pathlib import Path

from conformance.format.case import load_cases
from conformance.outcome import Verdict
from conformance.run.runner import Settings, run_cases
from conformance.targets.target import TargetOptions
from tests.integration import waiting_plugins

FUNCTION = f"{waiting_plugins.__name__}:{waiting_plugins.run_with_patient_plugins.__name__}"


def _passes(tmp_path: Path, steps: str) -> None:
    text = """
        area: time
        cases:
        - name: patience
          source: nowhere
          cluster: [node: {name: a, cpu: 1}]
          steps:
    """
    file = tmp_path / "case.yaml"
    lines = textwrap.dedent(text) + textwrap.indent(textwrap.dedent(steps), "  ")
    file.write_text(lines, encoding="utf-8")
    settings = Settings(target=TargetOptions(in_process=FUNCTION), workers=0)
    (outcome,) = run_cases(load_cases([file]), settings)
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")


def test_permit_gives_up_after_a_quarter_of_an_hour_to_the_second(tmp_path: Path) -> None:
    _passes(
        tmp_path,
        """
        - create: [pod: {name: p, labels: {held: ""}}]
        - wait_until_settled:
        - advance: 14m29s   # half a minute is what the plugin's work in the background takes
        - expect: {pod: p, not_bound: true, no_event: {reason: FailedScheduling}}
        - advance: 1s
        - expect: {pod: p, not_bound: true, event: {reason: FailedScheduling}}
        """,
    )


def test_a_pod_whose_node_is_prepared_for_hours_holds_its_room(tmp_path: Path) -> None:
    _passes(
        tmp_path,
        """
        - create: [pod: {name: p, cpu: 1, labels: {prepared: ""}}]
        - wait_until_settled:
        - create: [pod: {name: q, cpu: 1}]
        - advance: 1h
        - expect: {pod: p, not_bound: true}
        - expect: {pod: q, unschedulable: {message_contains: Insufficient cpu}}
        - advance: 1h
        - expect: {pod: p, bound_to: a}
        - expect: {nodes: no_overcommit}
        """,
    )


def test_a_plugins_work_in_the_background_is_seen_through_before_there_is_rest(
    tmp_path: Path,
) -> None:
    _passes(tmp_path, "- create: [pod: {name: p}]\n- expect: {pod: p, bound_to: a}\n")
    assert waiting_plugins.Works.finished == ["p"]
