"""An extender over HTTPS that filters, scores, binds and agrees to victims, for ours and stock."""

import collections
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from conformance.api import ApiClient as ConformanceClient
from conformance.api import Ref
from conformance.clock import RealClock
from conformance.extender import Extender, RunningExtender
from tests.fakeapi.api_client import ApiClient
from tests.realcluster.cluster import SCHEDULER_USER, RealCluster
from tests.realcluster.conftest import Note
from tests.realcluster.workload import Workload, message_of, names_bound_twice, node_of

Json = dict[str, Any]

#: The pods that a node has room for.
ROOM = 20
VERBS = ("filter", "prioritize", "preempt", "bind")
EXTENDER = {
    "name": "licences",
    "tls": "trusted",
    "config": {
        **{f"{verb}Verb": verb for verb in VERBS},
        "weight": 100,
        "nodeCacheCapable": True,
        "enableHTTPS": True,
    },
    "answers": {
        "filter": {
            "rejects": {f"n{number}": "no licence left" for number in range(5)},
            "unresolvable": {"n5": "never licensed"},
        },
        "prioritize": {"scores": {"n7": 10}},
    },
}


class Binder:
    """Binds pods for the extender."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    async def bind(self, ref: Ref, node: str) -> None:
        binding = {"metadata": {"name": ref.name}, "target": {"kind": "Node", "name": node}}
        path = f"/api/v1/namespaces/{ref.namespace}/pods/{ref.name}/binding"
        reply = await self._api.post(path, binding)
        assert reply.code == 201, reply.body


async def test_ours_and_stock_get_the_same_answers_and_decide_alike(
    cluster: RealCluster, api: ApiClient, note_figures: Note, tmp_path: Path
) -> None:
    outcomes = {}
    for kind in ("ours", "stock"):
        cluster.clear()
        cluster.nodes(10, pods=str(ROOM))
        async with RunningExtender(
            msgspec.convert(EXTENDER, Extender),
            api=cast("ConformanceClient", Binder(api)),
            clock=RealClock(),
        ) as extender:
            config = tmp_path / f"{kind}.yaml"
            config.write_text(yaml.safe_dump({
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(cluster.kubeconfig_for(SCHEDULER_USER))},
                "leaderElection": {"leaderElect": False},
                "extenders": [extender.config],
            }), encoding="utf-8")  # fmt: skip
            with cluster.scheduler(kind, f"--config={config}") as scheduler:
                pods = Workload(cluster, api)
                outcomes[kind] = await _schedule(pods, api)
                note_figures(
                    kind,
                    pods_bound=ROOM + 2,
                    **{f"calls_of_{verb}": extender.calls[verb] for verb in ("preempt", "bind")},
                    cpu_seconds=round(scheduler.cpu_seconds, 1),
                )
            assert not names_bound_twice(pods.bindings())
            # The extender bound all of them.
            assert {each.user for each in pods.bindings()} == {"admin"}
            assert set(extender.calls) == set(VERBS)
    assert outcomes["ours"] == outcomes["stock"]


async def _schedule(pods: Workload, api: ApiClient) -> Json:
    """Fill the node with the best score, then preempt there; return what the pods got."""
    await pods.create_many(ROOM)
    filled = collections.Counter((await pods.bound()).values())
    assert filled == {"n7": ROOM}
    await pods.create("next")
    assert await node_of(api, pods.path, "next") in ("n6", "n8", "n9")
    here = {"kubernetes.io/hostname": "n7"}
    await pods.create("important", nodeSelector=here, priorityClassName="system-cluster-critical")
    assert await node_of(api, pods.path, "important") == "n7"
    await pods.create("hopeless", nodeSelector={"kubernetes.io/hostname": "n0"})
    left = sum(1 for pod in await pods.pods() if pod["spec"].get("nodeName") == "n7")
    return {"on_n7": left, "message": await message_of(api, pods.path, "hopeless")}
