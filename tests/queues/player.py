"""Plays a scenario of kube-batch on our scheduler, in virtual time.

The cluster is built as kube-batch's was, and the profile from its configuration: plugins and their
switches become rules, actions become actions. Evicted pods vanish at once; with `recreate` they
come back under a new name a second later. The improvements are off, as kube-batch has none of them;
`improved` turns them on.
"""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from scheduler.api import resources
from scheduler.api.core import Pod
from scheduler.api.unstructured import Unstructured
from scheduler.assembly.simulated_cluster import SimulatedCluster
from scheduler.config import DEFAULT_FEATURE_GATES, FeatureGates, KubeSchedulerConfiguration
from scheduler.config.load import load_text
from scheduler.framework import (
    CycleState,
    Nodes,
    Plugin,
    PodInfo,
    Rejections,
    reject,
    unschedulable,
)
from scheduler.plugins import SCHEME
from scheduler.queues.ledger import Ledger, Share
from scheduler.queues.objects import GROUP_NAME_ANNOTATION, POD_GROUP_KINDS, QUEUE_KINDS
from scheduler.testing import make_node, make_pod

SCHEDULER_NAME: Final = "kube-batch"

#: The virtual time after which nothing changes any more, in seconds: shorter than the time for
#: which the members of a gang are held.
_SETTLED_AFTER_SECONDS: Final = 250.0
_SYSTEM_PRIORITY: Final = 2_000_000_000
#: kube-batch's plugins of node scores, in integers of kube-scheduler 1.13.
_NODE_ORDER: Final = {
    "leastrequested.weight": "LeastRequestedPriority",
    "balancedresource.weight": "BalancedResourceAllocation",
}
#: Amounts of kube-batch that differ by less are equal; those below are empty.
_TOLERANCE: Final = {"cpu": 10, "memory": 10 * 2**20}
#: An annotation with the requests of a pod's init container.
_START_REQUEST: Final = "start-request"
_NO_ARGS: Final[Mapping[str, Any]] = {}
_NO_IMPROVEMENTS: Final = {
    "releaseUnfitGangs": False,
    "countIdleRoom": False,
    "fillEachResource": False,
    "stableEvictions": False,
    "reservationAfterSeconds": 0,
    "backfillRespectsReservations": False,
    "returnBorrowedRoom": False,
}


class StartRequest(Plugin):
    """Asks for room for the init container where kube-batch does: while it looks for a node.

    On the node, kube-batch counts the requests of the containers alone, so the pods of a scenario
    have no init containers.
    """

    only_takes_room = True

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        text = pod.annotations.get(_START_REQUEST)
        if text is None:
            return None
        start = resources.node_allocatable(json.loads(text))
        short = np.zeros(len(nodes), dtype=np.bool_)
        for name, amount in start.items():
            short |= nodes.unrequested(name) < amount
        return reject(short, unschedulable("no room for the init container"))


_PLUGINS: Final[list[type[Plugin] | str]] = [
    StartRequest,
    *(f"scheduler.plugins.legacy.scores:{name}" for name in _NODE_ORDER.values()),
]


class Playing:
    """One scenario that is being played."""

    def __init__(
        self,
        scenario: Mapping[str, Any],
        *,
        improved: bool = False,
        args: Mapping[str, Any] = _NO_ARGS,
        gates: FeatureGates = DEFAULT_FEATURE_GATES,
    ) -> None:
        self._scenario: Final = scenario
        self._groups: Final = {
            f"{_namespace(group)}/{group['name']}": group
            for group in scenario.get("podGroups") or ()
        }
        config = configuration(
            scenario["conf"], args={**({} if improved else _NO_IMPROVEMENTS), **args}, gates=gates
        )
        self.cluster: Final = SimulatedCluster(config, plugins=_PLUGINS, feature_gates=gates)
        self.cluster.core.informers.pods.add_event_handler(on_delete=self._on_delete)
        #: The row of the scenario behind each pod, by key.
        self._first_names: Final[dict[str, Mapping[str, Any]]] = {}
        self._returned = 0
        #: The keys of pods that were evicted.
        self.returned: Final[set[str]] = set()
        #: The number of pods of each group that succeeded.
        self.finished: Final[Counter[str]] = Counter()
        self._evicted: Final[Counter[str]] = Counter()

    async def summary(self) -> dict[str, Any]:
        """Play, and return the summary as the judge writes it."""
        self.create()
        first = self._deserved()
        await self.cluster.run_until(self.cluster.clock.now() + _SETTLED_AFTER_SECONDS)
        summary = self._summary(first)
        await self.cluster.close()
        return summary

    # The cluster.

    def create(self) -> None:
        """Create the objects of the scenario."""
        scenario, api = self._scenario, self.cluster.api
        for node in scenario["nodes"]:
            self.cluster.apply(_node(node))
        for queue in scenario["queues"]:
            spec = {"weight": queue.get("weight", 0)}
            api.put(QUEUE_KINDS[0], _object(queue, spec, namespaced=False))
        for of_class in scenario.get("priorityClasses") or ():
            api.put("priorityclasses.v1.scheduling.k8s.io", _priority_class(of_class))
        for group in self._groups.values():
            self.add_group(group)
        for row in sorted(scenario["pods"], key=lambda row: "node" not in row):
            self.add_pod(row)

    def add_group(self, row: Mapping[str, Any]) -> None:
        """Create a PodGroup."""
        self._groups[f"{_namespace(row)}/{row['name']}"] = row
        names = ("minMember", "queue", "priorityClassName")
        spec = {name: row[name] for name in names if name in row}
        self.cluster.api.put(POD_GROUP_KINDS[0], _object(row, spec))

    def add_pod(self, row: Mapping[str, Any]) -> None:
        """Create a pod; one that has finished runs before."""
        self._first_names[f"{_namespace(row)}/{row['name']}"] = row
        pod = self._pod(row)
        self.cluster.apply(replace(pod, status=replace(pod.status, phase="Running")))
        if pod.status.phase != "Running":
            self.cluster.apply(pod)

    def finish(self, pod: Pod) -> None:
        """Let a pod succeed."""
        self.finished[self._first_names[pod.key].get("group", "")] += 1
        self.cluster.apply(replace(pod, status=replace(pod.status, phase="Succeeded")))

    def _on_delete(self, pod: Pod, *, final_state_unknown: bool) -> None:
        del final_state_unknown
        if pod.status.phase in ("Succeeded", "Failed"):
            return
        row = self._first_names[pod.key]
        self.returned.add(pod.key)
        self._evicted[self._queue(row)] += 1
        if self._scenario.get("recreate"):
            self._returned += 1
            name = f"{row['name']}-r{self._returned}"
            back = {key: row[key] for key in row if key not in ("node", "phase")}
            back = {**back, "created": 100_000 + self._returned}
            self._first_names[f"{_namespace(row)}/{name}"] = row
            self.cluster.after(1.0, lambda: self.cluster.apply(self._pod({**back, "name": name})))

    def _pod(self, row: Mapping[str, Any]) -> Pod:
        """Return a pod with requests as kube-batch compares them.

        Less than the tolerance is nothing, and what exceeds a node by less fits there.
        """
        requests = row.get("requests") or {}
        counted = resources.node_allocatable(requests)
        if all(amount < _TOLERANCE.get(name, 1) for name, amount in counted.items()):
            requests = {}
        for name, tolerance in _TOLERANCE.items():
            for node in self._scenario["nodes"]:
                offered = node["allocatable"][name]
                excess = counted.get(name, 0) - resources.node_allocatable({name: offered})[name]
                if 0 < excess < tolerance:
                    requests = {**requests, name: offered}
        return _pod({**row, "requests": requests})

    # The summary.

    def _queue(self, row: Mapping[str, Any]) -> str:
        group = self._groups.get(f"{_namespace(row)}/{row.get('group', '')}", {})
        queue: str = group.get("queue") or "default"
        return queue

    def _deserved(self) -> dict[str, dict[str, float]]:
        plugin = next(iter(self.cluster.core.profiles.values()))
        shares: Mapping[str, Share] = plugin.handle.shared(Ledger).shares
        return {
            queue: {name: _judged(name, amount) for name, amount in share.deserved.items()}
            for queue, share in shares.items()
        }

    def _summary(self, first: Mapping[str, Any]) -> dict[str, Any]:
        names = [queue["name"] for queue in self._scenario["queues"]]
        bound = Counter(dict.fromkeys(names, 0))
        running: Counter[str] = Counter()
        succeeded: Counter[str] = Counter()
        for pod in self.cluster.pods:
            row = self._first_names[pod.key]
            key = f"{_namespace(row)}/{row.get('group', '')}"
            if pod.status.phase == "Succeeded":
                succeeded[key] += 1
            elif pod.spec.node_name and pod.status.phase != "Failed":
                running[key] += 1
                bound[self._queue(row)] += 1
        return {
            "bound": dict(bound),
            "evicted": {**dict.fromkeys(names, 0), **self._evicted},
            "jobs": {
                key: {
                    "minMember": group.get("minMember", 0),
                    "running": running[key],
                    "succeeded": succeeded[key],
                    "ready": running[key] + succeeded[key] >= group.get("minMember", 0),
                }
                for key, group in self._groups.items()
            },
            "deservedFirst": first,
            "deservedLast": self._deserved(),
        }


def _judged(name: str, amount: float) -> float:
    """Return an amount in the judge's unit: every scalar in thousandths."""
    return amount if name in ("cpu", "memory") else amount * 1000


def _namespace(row: Mapping[str, Any]) -> str:
    namespace: str = row.get("namespace", "default")
    return namespace


def _created(row: Mapping[str, Any]) -> str:
    return datetime.fromtimestamp(row.get("created", 0), UTC).isoformat()


def _object(
    row: Mapping[str, Any], spec: Mapping[str, Any], *, namespaced: bool = True
) -> Unstructured:
    metadata = {"name": row["name"], "creationTimestamp": _created(row)}
    if namespaced:
        metadata["namespace"] = _namespace(row)
    return Unstructured({"metadata": metadata, "spec": spec})


def _priority_class(row: Mapping[str, Any]) -> Unstructured:
    metadata = {"name": row["name"]}
    return Unstructured(
        {
            "metadata": metadata,
            "value": row["value"],
            "globalDefault": row.get("globalDefault", False),
        }
    )


def _node(row: Mapping[str, Any]) -> Any:
    taints = [{"value": "", **taint} for taint in row.get("taints") or ()]
    return make_node(
        row["name"],
        allocatable=row["allocatable"],
        labels=row.get("labels"),
        taints=taints,
        unschedulable=row.get("unschedulable", False),
    )


def _pod(row: Mapping[str, Any]) -> Pod:
    """Return a pod of the scenario; its phase is Pending if it has none."""
    namespace, name = _namespace(row), row["name"]
    annotations = {GROUP_NAME_ANNOTATION: row["group"]} if row.get("group") else {}
    init = row.get("initRequests")
    if init:
        annotations[_START_REQUEST] = json.dumps(init)
    priority = row.get("priority")
    if priority is None and row.get("priorityClassName", "").startswith("system-"):
        priority = _SYSTEM_PRIORITY
    pod = make_pod(
        name,
        namespace=namespace,
        uid=f"{namespace}/{name}",
        annotations=annotations,
        requests=row.get("requests"),
        node_name=row.get("node", ""),
        scheduler_name=SCHEDULER_NAME,
        priority=priority,
        preemption_policy=row.get("preemptionPolicy"),
        labels=row.get("labels"),
        affinity=row.get("affinity"),
        node_selector=row.get("selector"),
        tolerations=row.get("tolerations") or (),
        phase=row.get("phase", "Pending"),
        creation_timestamp=datetime.fromtimestamp(row.get("created", 0), UTC),
    )
    return replace(pod, spec=replace(pod.spec, termination_grace_period_seconds=0))


# The configuration.


def configuration(
    conf: Mapping[str, Any], *, args: Mapping[str, Any], gates: FeatureGates
) -> KubeSchedulerConfiguration:
    """Return the configuration with a profile in place of a kube-batch configuration.

    `args` are further arguments of the plugin.
    """
    plugins = {p["name"]: p for tier in conf["tiers"] for p in tier["plugins"]}

    def with_switch(switch: str, *names: str) -> list[str]:
        return [n for n in plugins if n in names and plugins[n].get(switch, True)]

    is_off = plugins.get("gang", {}).get("enableJobReady", True) is False
    rules = [
        n for n in plugins if n not in ("predicates", "nodeorder") and (n != "gang" or not is_off)
    ]
    all_args: dict[str, Any] = {
        "rules": rules,
        "actions": [a.strip() for a in conf["actions"].split(",") if a.strip() != "allocate"],
        "queueOrder": with_switch("enableQueueOrder", "proportion"),
        "jobOrder": with_switch("enableJobOrder", "priority", "gang", "drf"),
        "taskOrder": with_switch("enableTaskOrder", "priority"),
        "reclaimRules": with_switch("enableReclaimable", "gang", "conformance", "proportion"),
        "preemptRules": [
            "priority",
            *with_switch("enablePreemptable", "gang", "conformance", "drf"),
        ],
        **args,
    }
    order = plugins.get("nodeorder", {})
    weights = {
        name: int(order.get("arguments", {}).get(argument, 1))
        for argument, name in _NODE_ORDER.items()
        if order.get("enableNodeOrder", True)
    }
    scores = [{"name": name, "weight": weight} for name, weight in weights.items() if weight]
    profile = {
        "schedulerName": SCHEDULER_NAME,
        "plugins": {
            "multiPoint": {
                "enabled": [{"name": "Queues"}],
                "disabled": [{"name": "PrioritySort"}, {"name": "DefaultPreemption"}],
            },
            "score": {"enabled": scores, "disabled": [{"name": "*"}]},
        },
        "pluginConfig": [{"name": "Queues", "args": all_args}],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return load_text(json.dumps(document), SCHEME._replace(gates=gates))
