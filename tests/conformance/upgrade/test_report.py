"""The report on an upgrade in words, and the source of its decisions."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from conformance.errors import InputError
from conformance.upgrade import cli
from conformance.upgrade.decisions import Difference, Outcome, PodVersions, decisions
from conformance.upgrade.report import UpgradeReport
from conformance.upgrade.settings import Refusal

_MOVED = Difference(kind="node", plugin="NodeAffinity", node="a", text="", rows=("1.37: Labels",))


def _pod(name: str, *differences: Difference, owner: str = "", **after: Any) -> PodVersions:
    outcomes = (
        Outcome(version="1.36", result="placed", best=("a",)),
        Outcome(version="1.37", **{"result": "placed", "best": ("b", "c"), **after}),
    )
    return PodVersions(
        pod=f"default/{name}", owner=owner, outcomes=outcomes, differences=differences
    )


@pytest.mark.parametrize(
    ("after", "text"),
    [
        ({"best": ("b",)}, "b"),
        ({"best": ("b", "c", "d")}, "b or 2 equal"),
        ({"best": (), "result": "unschedulable"}, "unschedulable"),
        (
            {"best": (), "result": "unschedulable", "nominated_node": "b"},
            "unschedulable, nominated to b",
        ),
    ],
)
def test_a_decision_has_a_few_words(after: Any, text: str) -> None:
    assert _pod("p", **after).outcomes[1].text == text


@pytest.mark.parametrize(
    ("names", "owner", "who"),
    [
        ("p", "", "default/p"),
        ("pq", "", "default/p"),
        ("pq", "ReplicaSet/web", "2 pods of ReplicaSet/web: default/p, default/q"),
        (
            "pqrs",
            "ReplicaSet/web",
            "4 pods of ReplicaSet/web: default/p, default/q, default/r, ...",
        ),
    ],
)
def test_pods_of_one_owner_are_one_row(names: str, owner: str, who: str) -> None:
    pods = tuple(_pod(name, _MOVED, owner=owner) for name in names)
    report = UpgradeReport.of("1.36", "1.37", (*pods, _pod("same")), [])
    assert report.changes[0].who == who
    assert report.changes[0].after == "b or 1 equal"
    assert len(report.changes) == (1 if owner else len(names))
    number = len(names)
    assert report.counts == f"{number + 1} pods: {number} on another node"


_REFUSAL = Refusal("1.37", "--gone=1", "unknown flag: --gone")


@pytest.mark.parametrize(
    ("pods", "refusals", "lines"),
    [
        (None, [], ["all settings work in all versions"]),
        (
            None,
            [_REFUSAL],
            ["setting   stops in  message", "--gone=1  1.37      unknown flag: --gone"],
        ),
        ((_pod("p"),), [], ["1 pod: decided as before"]),
        (
            (_pod("p"),),
            [_REFUSAL],
            [
                "1 pod: decided as before",
                "setting   stops in  message",
                "--gone=1  1.37      unknown flag: --gone",
            ],
        ),
    ],
)
def test_the_report_has_a_part_for_each_source(
    pods: tuple[PodVersions, ...] | None, refusals: list[Refusal], lines: list[str]
) -> None:
    report = UpgradeReport.of("1.36", "1.37", pods, refusals)
    console = Console(width=100)
    with console.capture() as capture:
        report.print_to(console)
    printed = [line.rstrip() for line in capture.get().splitlines()]
    assert printed == ["from kube-scheduler 1.36 to 1.37", *lines]
    assert report.is_without_changes == (not refusals)


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (b"warning\nkubesched-explain: no such file\n", "no such file"),
        (b"", "exit status 2"),
    ],
)
def test_a_failure_of_explain_is_bad_input(
    errors: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, 2, b"", errors)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(InputError, match=f"^{message}$"):
        decisions(["--manifests", "x"], base="1.36", version="1.37")


_NODE = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
_POD = {"metadata": {"name": "p", "namespace": "team"}, "spec": {"containers": [{"name": "c"}]}}


def test_a_history_and_a_cluster_are_decided_with_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, ...]] = []
    dumped: list[tuple[str, str]] = []

    def decide(arguments: list[str], *, base: str, version: str) -> tuple[PodVersions, ...]:
        calls.append((*arguments, base, version))
        if arguments[0] == "--manifests":
            items = json.loads(Path(arguments[1]).read_bytes())["items"]
            dumped.extend((item["kind"], item["metadata"]["name"]) for item in items)
        return ()

    def upgrade(*arguments: str) -> None:
        command = ["--from", "1.37", "--to", "1.35", "--config", str(config), *arguments]
        result = CliRunner().invoke(cli.upgrade, command)
        assert result.exit_code == 0, result.output
        assert result.output.splitlines()[-1] == "0 pods: decided as before"

    history, config = tmp_path / "h.jsonl", tmp_path / "config.yaml"
    lines = [
        {"at": number, "change": "ADDED", "resource": resource, "object": obj}
        for number, (resource, obj) in enumerate([("nodes", _NODE), ("pods", _POD)])
    ]
    history.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    config.touch()
    monkeypatch.setattr(cli, "decisions", decide)
    monkeypatch.setattr(cli, "refusals", lambda *_: [])
    upgrade("--kubeconfig", str(config))
    upgrade("--history", str(history))
    assert calls[0] == ("--kubeconfig", str(config), "--config", str(config), "1.37", "1.35")
    assert calls[1][2:] == ("--config", str(config), "1.37", "1.35")
    assert dumped == [("Namespace", "team"), ("Node", "n"), ("Pod", "p")]
    # The dump of the history goes with the command.
    assert not Path(calls[1][1]).exists()
