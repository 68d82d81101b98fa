"""Mistakes in cases that are found without running them."""

import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.cli import main
from conformance.lint.checks import findings_in_cases, unused_anchors
from conformance.lint.cli import lint

from ..cases import write_cases

CLUSTER = "cluster: [{node: {name: a}}, {pod: {name: p}}]"


def _found(tmp_path: Path, *steps: str, more: str = CLUSTER) -> list[str]:
    """The checks that find something in a case with these steps."""
    lines = "\n".join(f"  - {step}" for step in steps)
    text = f"area: tiny\ncases:\n- name: c\n  source: s\n  {more}\n  steps:\n{lines}\n"
    return [f"{finding.check}: {finding.text}" for finding in findings_in_cases(
        write_cases(tmp_path, text)
    )]  # fmt: skip


GOOD = "expect: {pod: p, bound_to: a}"


def test_a_good_case_has_no_findings(tmp_path: Path) -> None:
    assert _found(tmp_path, "create: [pod: {name: q, count: 2}]", "touch: {pod: q-1}", GOOD) == []


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (["touch: {pod: q}", GOOD], "steps[0]: nothing before it makes pod q"),
        (["bind: {pod: p, node: b}", GOOD], "steps[0]: nothing before it makes node b"),
        (["expect: {pod: p, bound_to: b}"], "steps[0]: nothing before it makes node b"),
        (["expect: {pods: [p, q], not_bound: true}"], "steps[0]: nothing before it makes pod q"),
        (
            ["expect: {pod: q, deleted: true}", "create: [pod: {name: q}]", GOOD],
            "steps[0]: nothing before it makes pod q",
        ),
        (
            ["delete: {object: {kind: Service, name: s}}", GOOD],
            "steps[0]: nothing before it makes service s",
        ),
    ],
)
def test_names_of_objects_that_nothing_made(tmp_path: Path, steps: list[str], text: str) -> None:
    assert _found(tmp_path, *steps) == [f"unknown-name: tiny/c: {text}"]


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        (["expect: {pod: p, attempts: {at_least: 0}}"], "cannot-fail: tiny/c: steps[0]: every num"),
        (["expect: {pod: p, attempts: {at_least: 2, at_most: 1}}"], "cannot-hold: tiny/c: steps"),
        ([GOOD, GOOD], "cannot-fail: tiny/c: steps[1]: the same expectation as before"),
        (["touch: {pod: p}"], "cannot-fail: tiny/c: there is no expectation"),
        ([GOOD, "touch: {pod: p}"], "unchecked-step: tiny/c: steps[1]: no expectation comes after"),
        ([GOOD, *["touch: {pod: p}", GOOD] * 6], "no-description: tiny/c: 13 steps without a"),
    ],
)
def test_expectations_without_use(tmp_path: Path, steps: list[str], found: str) -> None:
    (finding,) = _found(tmp_path, *steps)
    assert finding.startswith(found)


FAULT = "inject: [{name: f, match: {verb: create}, answer: {code: 500}}]"


def test_faults_that_are_not_counted(tmp_path: Path) -> None:
    counted = "expect: {fault: f, injected: 1}"
    assert _found(tmp_path, FAULT, GOOD, counted) == []
    assert _found(tmp_path, FAULT, "clear_faults: [f]", GOOD) == [
        "uncounted-fault: tiny/c: no expectation counts the injections of a fault"
    ]
    other = FAULT.replace("name: f", "name: g")
    assert _found(tmp_path, FAULT, other, GOOD, counted) == [
        "uncounted-fault: tiny/c: the name of the fault g is used nowhere"
    ]


def test_cases_with_the_same_content(tmp_path: Path) -> None:
    case = "{{name: {}, source: s, cluster: [pod: {{name: p}}], steps: [expect: {}]}}"
    expected = "{pod: p, not_bound: true}"
    text = "area: tiny\ncases:\n" + "".join(f"- {case.format(n, expected)}\n" for n in "ab")
    (finding,) = findings_in_cases(write_cases(tmp_path, text))
    assert finding.text == "tiny/b: the same content as tiny/a"
    assert finding.place.endswith("cases.yaml:4")


def test_anchors_without_an_alias(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("definitions:\n  a: &a {x: 1}\n  b: &b {x: 2}\nc: *a\n", encoding="utf-8")
    assert [str(finding) for finding in unused_anchors(file)] == [
        f"{file}:3: unused-anchor: &b has no alias"
    ]


def test_the_command_prints_findings_and_fails(tmp_path: Path) -> None:
    text = f"""\
    area: tiny
    cases:
    - name: c
      source: s
      {CLUSTER}
      steps: [touch: {{pod: p}}]
    """
    file = tmp_path / "x.yaml"
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    result = CliRunner().invoke(main, ["lint", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stdout == f"{file}:3: cannot-fail: tiny/c: there is no expectation\n"
    file.write_text(
        file.read_text("utf-8").replace("touch: {pod: p}", "expect: {pod: p, not_bound: true}"),
        encoding="utf-8",
    )
    assert CliRunner().invoke(lint, [str(file)]).exit_code == 0


def test_the_built_in_cases_have_no_findings() -> None:
    result = CliRunner().invoke(main, ["lint"])
    assert (result.output, result.exit_code) == ("", 0)
