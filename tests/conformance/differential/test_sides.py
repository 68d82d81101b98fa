"""The sides of a comparison as options, and the report on what could not be compared."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from conformance.differential.comparison import Comparison
from conformance.differential.quality import Quality
from conformance.differential.report import print_report
from conformance.differential.run import Compared
from conformance.differential.sides import side_of
from conformance.errors import InputError
from conformance.targets.target import TargetOptions
from tests.conformance.differential.test_comparison import CASE, history


def test_a_side_has_a_name_gates_and_a_configuration(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "clientConnection: {qps: 7}\nparallelism: 3\n",
        encoding="utf-8",
    )
    text = f"name=new gates=A=true,B=false gates=C=true config={config} kubesched@1.35"
    side = side_of(text, option="--b", base=TargetOptions())
    assert (side.label, side.version) == ("new", "1.35")
    assert side.gates == {"A": True, "B": False, "C": True}
    assert side.config == {"parallelism": 3}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("'ours", "--b: No closing quotation: 'ours"),
        ("", "--b: expected ours, kubesched@VERSION, MODULE:FUNCTION or a command, got ''"),
        ("gates=A=true", "--b: expected ours, kubesched@VERSION, MODULE:FUNCTION or a command"),
        ("gates=A=yes ours", "--b: gates: expected NAME=true or NAME=false, got A=yes"),
        ("no.such:thing", "--b: --in-process: "),
    ],
)
def test_a_side_that_cannot_be_is_bad_input(text: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        side_of(text, option="--b", base=TargetOptions())
    assert problem in str(caught.value)


def test_the_report_names_a_run_that_broke_off_and_questions_without_an_answer() -> None:
    seen = history()
    broken = Comparison(case=CASE, a=seen, b=seen, differences=[], problem="A: timed out")
    compared = Compared(
        comparison=broken, a=Quality(), b=Quality(), referee_problem="no such plugin"
    )
    out = io.StringIO()
    print_report([compared, compared], ("ours", "other"), Console(file=out, width=120))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines.count("tests/c: A: timed out") == 1
    problem = "kubesched-explain gives no answer to some questions: no such plugin"
    assert lines.count(problem) == 1
    assert lines[-1] == "2 scenarios: 2 different"
