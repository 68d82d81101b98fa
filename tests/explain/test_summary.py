"""Many pods: the counts by result first, then the pods by owner and cause."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler.explain.cli import main
from scheduler.explain.summary_text import summary_lines
from scheduler.reports.model import PodGroup, Summary

LONG = "ip-10-0-{}.eu-central-1.compute.internal.example.com"
NODES_TOTAL = 24


def _node(index: int) -> dict[str, Any]:
    is_batch = index >= NODES_TOTAL - 4
    taints = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}] if is_batch else []
    labels = {"disk": "hdd" if index % 2 else "ssd", **({"pool": "batch"} if is_batch else {})}
    return {
        "kind": "Node",
        "metadata": {"name": LONG.format(index), "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "50"}},
    }


def _pods(owner: str, number: int, spec: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return pods of a Deployment; pods without an owner for an empty name."""
    controller = {"kind": "ReplicaSet", "name": f"{owner}-6f7d", "controller": True}
    metadata = {"ownerReferences": [controller], "labels": {"pod-template-hash": "6f7d"}}
    return [
        {
            "kind": "Pod",
            "metadata": {"name": f"{owner or 'bare'}-{i}", **(metadata if owner else {})},
            "spec": {"containers": [{"name": "c"}], **(spec or {})},
        }
        for i in range(number)
    ]


def _cpu(amount: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}]}


def _output(*pods: list[dict[str, Any]], arguments: tuple[str, ...] = ()) -> str:
    items = [_node(i) for i in range(NODES_TOTAL)] + [pod for some in pods for pod in some]
    dump = json.dumps({"kind": "List", "items": items})
    result = CliRunner().invoke(main, ["--manifests", "-", *arguments], input=dump)
    assert result.exit_code == 0, result.output
    return result.stdout


TYPO = _pods("typo", 5, {"nodeSelector": {"disk": "nvme"}})
BATCH = _pods("batch", 6, {"nodeSelector": {"pool": "batch"}})
HUGE = _pods("huge", 3, _cpu("64"))
GATED = _pods("gated", 2, {"schedulingGates": [{"name": "example.com/wait"}]})
FITS = _pods("web", 4)


def test_the_counts_by_result_come_first() -> None:
    first = _output(TYPO, GATED, FITS).splitlines()[0]
    assert first == "11 pods: 5 unschedulable, 2 gated, 4 scheduled"


@pytest.mark.parametrize(
    ("pods", "row"),
    [
        (TYPO, "5 default/typo: no node has disk=nvme; disk has hdd, ssd (for example"),
        (
            BATCH,
            "6 default/batch: 4 nodes: tolerate dedicated=batch:NoSchedule; "
            "20 nodes: label pool=batch (for example default/batch-0)",
        ),
        (
            HUGE,
            "3 default/huge: no node is large enough for 64 cpu; "
            f"the most is 16 on {LONG.format(0)} (for example default/huge-0)",
        ),
        (GATED, "2 default/gated: gated by SchedulingGates: waiting for scheduling gates:"),
        (_pods("", 2, _cpu("99")), "2 namespace default: no node is large enough for 99 cpu;"),
        # A cause that is too long is cut between words.
        (
            _pods("many", 2, {"nodeSelector": {f"key-{n}": "long" * 10 for n in range(9)}}),
            "...; (for example" if False else "... (for example default/many-0)",
        ),
    ],
)
def test_pods_are_grouped_by_owner_with_the_cause_in_a_sentence(
    pods: list[dict[str, Any]], row: str
) -> None:
    assert row in " ".join(_output(pods).split())


def test_a_cause_names_the_label_that_no_node_has_at_all() -> None:
    pods = _pods("a", 2, {"nodeSelector": {"gpu": "yes"}})
    assert "no node has gpu=yes, nor any label gpu" in _output(pods)


def test_amounts_may_differ_within_the_pods_of_an_owner() -> None:
    full = {"nodeSelector": {"pool": "batch"}, "tolerations": [{"operator": "Exists"}]}
    output = _output(_pods("web", 9, {**_cpu("10"), **full}))
    assert "9 pods: 5 unschedulable, 4 scheduled" in output
    assert "  5  default/web: 4 nodes: needs 4 more cpu; 20 nodes: label pool=batch" in output


def test_the_tables_are_there_for_one_pod_and_on_request() -> None:
    assert "would fit after" not in _output(TYPO)
    assert "would fit after" in _output(TYPO, arguments=("--pod", "typo-1"))
    assert "would fit after" in _output(TYPO[:1])
    for option in ("--details", "-v"):
        details = _output(TYPO, arguments=(option,))
        assert details.startswith("5 pods: 5 unschedulable")
        assert details.count("would fit after") == 5


def test_sixty_pods_of_any_kind_fit_on_a_screen_without_a_name_cut() -> None:
    singles = [
        pod
        for i in range(25)
        for pod in _pods(f"a-deployment-with-quite-a-long-name-{i}", 1, _cpu(str(20 + i)))
    ]
    output = _output(TYPO, BATCH, HUGE, GATED, FITS, singles, _pods("", 15))
    lines = output.splitlines()
    assert lines[0].startswith("60 pods: ")
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 100
    words = {word.strip("();,:") for word in output.split() if word.startswith("ip-10-")}
    assert words <= {LONG.format(i) for i in range(NODES_TOTAL)}
    assert lines[-3].startswith("and ")
    assert lines[-3].endswith(" more groups (--details, -o json)")


def test_one_cause_of_many_owners_is_one_row_if_the_screen_is_too_small() -> None:
    groups = tuple(
        PodGroup("unschedulable", "ns", f"ns/{i}", "full", (f"ns/{i}-0",)) for i in range(60)
    )
    lines = summary_lines(Summary({"unschedulable": 60}, groups))
    assert lines[-1] == "  60  namespace ns: full (for example ns/0-0)"


def test_json_and_the_page_have_the_same_structure() -> None:
    report = json.loads(_output(TYPO, FITS, arguments=("-o", "json")))
    assert report["summary"]["results"] == {"unschedulable": 5, "scheduled": 4}
    typo, web = report["summary"]["groups"]
    assert typo["owner"] == "default/typo"
    assert typo["cause"] == "no node has disk=nvme; disk has hdd, ssd"
    assert typo["pods"] == [f"default/typo-{i}" for i in range(5)]
    assert web["node"] == LONG.format(0)
    page = _output(TYPO, FITS, arguments=("-o", "html"))
    assert "no node has disk=nvme; disk has hdd, ssd" in page
