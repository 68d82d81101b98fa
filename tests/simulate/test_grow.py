"""`kubesched-simulate grow`: the nodes to add, and the files of node shapes."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler.simulate.cli import main
from scheduler.simulate.packing import Bin, Items, cheapest_mix
from tests.simulate.what_if import answer, node, pod, write

HEAD = "name,price,max,cpu,memory,labels,taints\n"


def shapes(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "shapes.csv"
    path.write_text(HEAD + "\n".join(rows), encoding="utf-8")
    return path


def grown(tmp_path: Path, objects: list[Any], *rows: str, by: str = "price") -> Any:
    manifests = write(tmp_path / "cluster.yaml", *objects)
    arguments = ("--node-shapes", shapes(tmp_path, *rows), "--by", by)
    return answer("grow", *arguments, "--manifests", manifests)["growths"]


def added(growth: Any) -> dict[str, int]:
    return {each["shape"]: each["count"] for each in growth["added"]}


def test_the_cheapest_nodes_and_the_fewest(tmp_path: Path) -> None:
    objects = [node("n1", "1"), *(pod(f"p{i}", "2") for i in range(5))]
    rows = ("small,1,,4,16Gi,,", "large,2.5,,8,32Gi,,")
    off, _ = grown(tmp_path, objects, *rows)
    assert (added(off), off["price"]) == ({"small": 3}, 3.0)
    assert off["outcome"]["waiting"] == []
    fewest, _ = grown(tmp_path, objects, *rows, by="nodes")
    assert sum(added(fewest).values()) == 2


def test_daemons_take_their_part_of_a_new_node(tmp_path: Path) -> None:
    daemon = pod("logs-n1", "1", on="n1", owner="logs", kind="DaemonSet")
    objects = [node("n1", "1"), daemon, *(pod(f"p{i}", "2") for i in range(4))]
    off, _ = grown(tmp_path, objects, "small,1,,4,16Gi,,")
    assert added(off) == {"small": 4}
    placed = {each["pod"]: each["node"] for each in off["outcome"]["placed"]}
    assert placed["default/logs-small-0"] == "small-0"


def test_preemption_may_need_fewer_nodes_and_hopeless_pods_are_named(tmp_path: Path) -> None:
    """The evicted pod can go to the small node; the pod that evicts it cannot."""
    objects = [
        node("n1", "4", disk="ssd"),
        pod("low-1", "2", on="n1", owner="low"),
        pod("fast", "4", priority=10, nodeSelector={"disk": "ssd"}),
        pod("huge", "64"),
    ]
    rows = ("plain,1,,4,16Gi,,", "ssd,5,,4,16Gi,disk=ssd,", "taken,1,,99,16Gi,,gpu=yes:NoSchedule")
    off, on = grown(tmp_path, objects, *rows)
    assert (added(off), added(on)) == ({"ssd": 1}, {"plain": 1})
    for growth in (off, on):
        [hopeless] = growth["hopeless"]
        assert hopeless["pod"] == "default/huge"
        assert "2 node(s) had untolerated taint(s)" in hopeless["reason"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (",,,,,,", "Object missing required field `name`"),
        ("a,1,,,,,", "expected amounts of resources, such as cpu and memory"),
        (",1,,4,16Gi,,", "Object missing required field `name`"),
        ("a,cheap,,4,16Gi,,", "price: Expected `float`, got `str`"),
        ("a,1,,4 cores,16Gi,,", 'cpu: "4 cores": '),
        ("a,1,,4,16Gi,pool,", "labels: expected KEY=VALUE, got 'pool'"),
        ("a,1,,4,16Gi,,gpu", "taints: expected KEY=VALUE:EFFECT, got 'gpu'"),
    ],
)
def test_an_error_names_the_line_and_the_column(tmp_path: Path, row: str, message: str) -> None:
    manifests = write(tmp_path / "cluster.yaml", node("n1"))
    path = shapes(tmp_path, row)
    arguments = ["grow", "--node-shapes", str(path), "--manifests", str(manifests)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert f"kubesched-simulate: {path}:2: {message}" in result.stderr


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (("a,1,,4,16Gi,,", "a,2,,8,16Gi,,"), ":3: name: a is there twice"),
        ((), ": expected at least one node shape"),
    ],
)
def test_the_shapes_are_at_least_one_and_distinct(
    tmp_path: Path, rows: tuple[str, ...], message: str
) -> None:
    manifests = write(tmp_path / "cluster.yaml", node("n1"))
    path = shapes(tmp_path, *rows)
    arguments = ["grow", "--node-shapes", str(path), "--manifests", str(manifests)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert f"kubesched-simulate: {path}{message}" in result.stderr


def test_a_mix_has_all_bins_where_they_are_not_enough() -> None:
    items = [Items({"cpu": 4}, 5, frozenset({"small", "large"}))]
    bins = [Bin("small", {"cpu": 4}, 1.0, 2), Bin("large", {"cpu": 8}, 1.9, 1)]
    assert cheapest_mix(items, bins) == Counter({"small": 2, "large": 1})


def test_a_mix_is_the_cheapest_of_all_for_few_bins() -> None:
    both = frozenset({"small", "large"})
    items = [Items({"cpu": 3}, 3, both), Items({"cpu": 1}, 2, both)]
    bins = [Bin("small", {"cpu": 4}, 1.0, 100), Bin("large", {"cpu": 8}, 1.9, 100)]
    assert cheapest_mix(items, bins) == Counter({"small": 1, "large": 1})


def test_a_mix_of_many_bins_holds_everything() -> None:
    names = [f"b{i}" for i in range(8)]
    bins = [
        Bin(name, {"cpu": 4 + i, "memory": 40 - i}, 1 + i / 10, 50) for i, name in enumerate(names)
    ]
    items = [Items({"cpu": 2, "memory": 5 + i}, 9, frozenset(names[i:])) for i in range(6)]
    mix = cheapest_mix(items, bins)
    assert sum(bins[int(name[1:])].cost * n for name, n in mix.items()) <= 22
