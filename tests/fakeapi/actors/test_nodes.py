"""Node lifecycle: taints and evictions on nodes without heartbeats."""

from fakeapi import KubeletOptions, NodeLifecycleOptions
from fakeapi.actors.node_lifecycle import toleration_seconds

from ..actor_cluster import NODES, PODS, Cluster, cluster, conditions, node, pod
from ..api_client import MERGE, Json

FAST = NodeLifecycleOptions(monitor_grace_seconds=20, startup_grace_seconds=30)


def taints(found: Json) -> set[tuple[str, str]]:
    return {
        (taint["key"].rpartition("/")[2], taint["effect"])
        for taint in found["spec"].get("taints", [])
    }


def stop(c: Cluster, name: str) -> None:
    assert c.actors.kubelet is not None
    c.actors.kubelet.stop_node(name)


async def test_a_node_without_heartbeat_is_unknown_and_tainted_and_its_pods_are_evicted() -> None:
    async with cluster(kubelet=True, node_lifecycle=FAST) as c:
        await c.create(PODS, pod("patient"))
        bears = {
            "key": "node.kubernetes.io/unreachable",
            "operator": "Exists",
            "effect": "NoExecute",
        }
        await c.create(PODS, pod("hasty", spec={"tolerations": [bears | {"tolerationSeconds": 7}]}))
        await c.create(PODS, pod("stoic", spec={"tolerations": [bears]}))
        await c.advance(2)
        stop(c, "n1")
        await c.advance(18)
        assert conditions(await c.read(f"{NODES}/n1"))["Ready"] == "Unknown"
        found = await c.read(f"{NODES}/n1")
        assert set(conditions(found).values()) == {"Unknown"}
        assert found["status"]["conditions"][0]["reason"] == "NodeStatusUnknown"
        assert taints(found) == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
        pods = await c.items(PODS)
        assert [conditions(p)["Ready"] for p in pods] == ["False"] * 3
        await c.advance(7)
        hasty = await c.read(f"{PODS}/hasty")
        assert hasty["metadata"]["deletionTimestamp"]
        assert conditions(hasty)["DisruptionTarget"] == "True"
        assert "deletionTimestamp" not in (await c.read(f"{PODS}/patient"))["metadata"]
        await c.advance(293)  # what admission grants every pod: 300 s
        assert (await c.read(f"{PODS}/patient"))["metadata"]["deletionTimestamp"]
        assert "deletionTimestamp" not in (await c.read(f"{PODS}/stoic"))["metadata"]


async def test_a_node_with_heartbeats_again_loses_its_taints_and_its_pods_are_ready() -> None:
    async with cluster(kubelet=True, node_lifecycle=FAST) as c:
        await c.create(PODS, pod())
        await c.advance(1)
        await c.api.patch(
            f"{NODES}/n1", {"metadata": {"annotations": {"fakeapi.kubesched.io/stopped": "true"}}}
        )
        await c.advance(20)
        assert conditions(await c.read(f"{PODS}/p"))["Ready"] == "False"
        await c.api.patch(
            f"{NODES}/n1", {"metadata": {"annotations": {"fakeapi.kubesched.io/stopped": None}}}
        )
        await c.settle()
        found = await c.read(f"{NODES}/n1")
        assert conditions(found)["Ready"] == "True"
        assert taints(found) == set()
        assert conditions(await c.read(f"{PODS}/p"))["Ready"] == "True"
        await c.advance(400, step_seconds=10)
        assert await c.code(f"{PODS}/p") == 200


async def test_renewed_leases_keep_a_node_ready() -> None:
    async with cluster(kubelet=True, node_lifecycle=FAST) as c:
        await c.advance(200, step_seconds=10)
        assert conditions(await c.read(f"{NODES}/n1"))["Ready"] == "True"


async def test_a_new_node_has_a_longer_grace_period() -> None:
    async with cluster(node_lifecycle=FAST) as c:
        await c.advance(29)
        assert conditions(await c.read(f"{NODES}/n1")) == {}
        await c.advance(1)
        found = await c.read(f"{NODES}/n1")
        assert found["status"]["conditions"][0]["reason"] == "NodeStatusNeverUpdated"
        assert ("unreachable", "NoExecute") in taints(found)


async def test_conditions_and_cordons_become_taints_and_other_taints_stay() -> None:
    own = {"key": "mine", "effect": "NoExecute"}
    async with cluster(load=[node("n1") | {"spec": {"taints": [own]}}], node_lifecycle=True) as c:
        status = [
            {"type": "Ready", "status": "False"},
            {"type": "DiskPressure", "status": "True"},
            {"type": "NetworkUnavailable", "status": "True"},
        ]
        await c.api.patch(f"{NODES}/n1/status", {"status": {"conditions": status}}, MERGE)
        await c.api.patch(f"{NODES}/n1", {"spec": {"unschedulable": True}})
        await c.settle()
        assert taints(await c.read(f"{NODES}/n1")) == {
            ("mine", "NoExecute"),
            ("not-ready", "NoSchedule"),
            ("not-ready", "NoExecute"),
            ("disk-pressure", "NoSchedule"),
            ("network-unavailable", "NoSchedule"),
            ("unschedulable", "NoSchedule"),
        }
        status = [{"type": "Ready", "status": "True"}]
        await c.api.patch(f"{NODES}/n1/status", {"status": {"conditions": status}}, MERGE)
        await c.api.patch(f"{NODES}/n1", {"spec": {"unschedulable": None}})
        await c.settle()
        assert taints(await c.read(f"{NODES}/n1")) == {("mine", "NoExecute")}


async def test_a_taint_of_a_user_evicts_pods_at_once() -> None:
    options = KubeletOptions(termination_seconds=0)
    async with cluster(kubelet=options, node_lifecycle=True) as c:
        await c.create(PODS, pod())
        await c.advance(1)
        taint = {"key": "mine", "effect": "NoExecute"}
        await c.api.patch(f"{NODES}/n1", {"spec": {"taints": [taint]}})
        await c.settle()
        assert await c.code(f"{PODS}/p") == 404


def test_the_shortest_toleration_counts_and_all_taints_must_be_tolerated() -> None:
    first, second = {"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "NoExecute"}
    anything = {"operator": "Exists", "effect": "NoExecute"}
    long = {"key": "a", "operator": "Exists", "tolerationSeconds": 90}
    short = {"key": "b", "operator": "Exists", "tolerationSeconds": 9}
    assert toleration_seconds([long], [first, second]) == 0
    assert toleration_seconds([long, short], [first, second]) == 9
    assert toleration_seconds([anything], [first, second]) is None
    assert toleration_seconds([{"key": "a", "value": "x"}], [first]) == 0
    assert toleration_seconds([{**long, "tolerationSeconds": -1}], [first]) == 0
