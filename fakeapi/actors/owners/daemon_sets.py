"""DaemonSets: a pod for every node that it fits, bound by the scheduler.

Source: pkg/controller/daemon of Kubernetes v1.36.3.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from fakeapi.actors.node_lifecycle import taints_of, tolerates
from fakeapi.actors.owners.daemon_updates import Daemons, excess, limits_of, replacements
from fakeapi.actors.owners.pods import pod_from
from fakeapi.actors.owners.revisions import REVISION_LABEL, RevisedOwner
from fakeapi.actors.resources import DAEMON_SETS, NODES
from fakeapi.decoding.selectors import Requirement
from fakeapi.types.objects import Json, integer, mapping, mappings, string_map, text, texts

if TYPE_CHECKING:
    from fakeapi.actors.controller import Context
    from fakeapi.actors.objects import Object

_OPERATORS: Final = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
    "Gt": "gt",
    "Lt": "lt",
}
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


class DaemonSets(RevisedOwner):
    """Keeps one pod of each DaemonSet on each node that it fits."""

    name = "daemonset-controller"
    resource = DAEMON_SETS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes = self.informer(NODES, self._node_changed)

    async def sync(self, key: str) -> None:
        """Create, delete and replace pods, then write the status."""
        owner = self.owners.objects.get(key)
        if owner is None:
            return
        pods = await self.claimed(owner, self.pods)
        update, revisions = await self.sync_revisions(owner)
        template = _tolerant(owner.template)
        daemons = Daemons(
            owner,
            label=update.name.removeprefix(f"{owner.name}-"),
            by_node=_by_node(pods),
            fit={name: _fits(template, node) for name, node in sorted(self._nodes.objects.items())},
            now=self.clock.now(),
        )
        if not owner.is_deleting and not await self._manage(daemons, template):
            await self._update(daemons, template)
        await self.update_status(self.resource, owner, _status(daemons))
        used = {f"{owner.name}-{pod.labels.get(REVISION_LABEL)}" for pod in pods}
        await self.truncate_history(owner, revisions, used | {update.name})
        self.plan_availability(key, pods, integer(owner.spec.get("minReadySeconds")))

    async def _manage(self, daemons: Daemons, template: Object) -> bool:
        """Create missing and delete surplus pods; return True if there were any."""
        owner, by_node, fit = daemons.owner, daemons.by_node, daemons.fit
        surges = limits_of(daemons)[0] > 0
        missing: list[str] = []
        gone = [pod for node in by_node.keys() - fit.keys() for pod in by_node[node]]
        for node, (runs, stays) in fit.items():
            present = by_node.get(node, [])
            if not stays:
                gone += [pod for pod in present if pod.is_active]
                continue
            for pod in present:
                if pod.has_ended and not pod.is_deleting:
                    await self._record_end(owner, pod, node)
                    gone.append(pod)
            if runs and (not present or (surges and not any(pod.is_active for pod in present))):
                missing.append(node)
            gone += excess(daemons, node, surges=surges)
        gone = [pod for pod in gone if not pod.is_deleting]
        await self.delete_pods(owner, gone)
        await self._make(daemons, template, missing)
        return bool(gone or missing)

    async def _record_end(self, owner: Object, pod: Object, node: str) -> None:
        """Write an event about a pod that has ended and will be replaced."""
        shown = f"{pod.namespace}/{pod.name} on node {node}"
        if pod.phase == "Failed":
            message = f"Found failed daemon pod {shown}, will try to kill it"
            await self.record(owner, "FailedDaemonPod", message, kind="Warning")
        else:
            message = f"Found succeeded daemon pod {shown}, will try to delete it"
            await self.record(owner, "SucceededDaemonPod", message)

    async def _make(self, daemons: Daemons, template: Object, nodes: list[str]) -> None:
        labels = {REVISION_LABEL: daemons.label}
        made = []
        for node in nodes:
            pod = pod_from(self.resource, daemons.owner, template, labels=labels)
            made.append(pod.changed(spec=_pinned(pod.spec, node)))
        _, failure = await self.create_pods(daemons.owner, made)
        if failure is not None:
            raise failure

    async def _update(self, daemons: Daemons, template: Object) -> None:
        """Replace old pods by new ones, within maxUnavailable and maxSurge."""
        strategy = mapping(daemons.owner.spec.get("updateStrategy"))
        if strategy.get("type") == "OnDelete":
            return
        gone, nodes = replacements(daemons)
        await self.delete_pods(daemons.owner, gone)
        await self._make(daemons, template, nodes)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _relevant(old) == _relevant(new):
            return
        for key in self.owners.objects:
            self.queue.add(key)


def _status(daemons: Daemons) -> Json:
    names = ("desired", "current", "misscheduled", "ready", "available", "updated")
    count = dict.fromkeys(names, 0)
    for node, (runs, _) in daemons.fit.items():
        active = [pod for pod in daemons.by_node.get(node, []) if pod.is_active]
        if not runs:
            count["misscheduled"] += bool(active)
            continue
        count["desired"] += 1
        if active:
            best = min(active, key=lambda pod: not pod.is_ready)
            count["current"] += 1
            count["ready"] += best.is_ready
            count["available"] += daemons.is_up(best)
            count["updated"] += daemons.is_new(best)
    optional = {
        "updatedNumberScheduled": count["updated"],
        "numberAvailable": count["available"],
        "numberUnavailable": count["desired"] - count["available"],
    }
    return {
        "currentNumberScheduled": count["current"],
        "numberMisscheduled": count["misscheduled"],
        "desiredNumberScheduled": count["desired"],
        "numberReady": count["ready"],
        "observedGeneration": daemons.owner.generation,
        **{name: value for name, value in optional.items() if value},
    }


def _relevant(node: Object) -> tuple[Json, object]:
    return node.labels, taints_of(node, "NoSchedule", "NoExecute")


def _tolerant(template: Object) -> Object:
    """Return the template with the tolerations that every daemon pod gets."""
    spec = template.spec
    added: list[Json] = [
        {"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED
    ]
    if spec.get("hostNetwork"):
        key = "node.kubernetes.io/network-unavailable"
        added.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    present = mappings(spec.get("tolerations"))
    new = [one for one in added if one not in present]
    return template.changed(spec={**spec, "tolerations": [*present, *new]})


def _fits(template: Object, node: Object) -> tuple[bool, bool]:
    """Return if a new pod shall run on the node, and if a running one may stay."""
    spec = template.spec
    if spec.get("nodeName") not in (None, "", node.name) or not _is_selected(spec, node):
        return False, False
    tolerations = mappings(spec.get("tolerations"))

    def tolerated(*effects: str) -> bool:
        return all(
            any(tolerates(one, taint) for one in tolerations) for taint in taints_of(node, *effects)
        )

    return tolerated("NoSchedule", "NoExecute"), tolerated("NoExecute")


def _is_selected(spec: Json, node: Object) -> bool:
    if not string_map(spec.get("nodeSelector")).items() <= node.labels.items():
        return False
    required = _required(spec)
    if not required:
        return True
    return any(_term_matches(term, node) for term in mappings(required.get("nodeSelectorTerms")))


def _required(spec: Json) -> Json:
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    return mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))


def _term_matches(term: Json, node: Object) -> bool:
    expressions = mappings(term.get("matchExpressions"))
    fields = mappings(term.get("matchFields"))
    if not expressions and not fields:
        return False
    name: Json = {"metadata.name": node.name}
    return all(_holds(one, node.labels) for one in expressions) and all(
        _holds(one, name) for one in fields
    )


def _holds(expression: Json, labels: Json) -> bool:
    operator = _OPERATORS.get(text(expression.get("operator")), "in")
    values = frozenset(texts(expression.get("values")))
    return Requirement(text(expression.get("key")), operator, values).matches(labels)


def _pinned(spec: Json, node: str) -> Json:
    """Return the spec with a required node affinity for one node."""
    field: Json = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = mappings(_required(spec).get("nodeSelectorTerms")) or [{}]
    pinned = [{**term, "matchFields": [field]} for term in terms]
    affinity = mapping(spec.get("affinity"))
    node_affinity = {
        **mapping(affinity.get("nodeAffinity")),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": pinned},
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def target_node_of(pod: Object) -> str:
    """Return the node that a daemon pod is bound to or made for."""
    spec = pod.spec
    if spec.get("nodeName"):
        return text(spec["nodeName"])
    terms = mappings(_required(spec).get("nodeSelectorTerms"))
    for field in itertools.chain.from_iterable(mappings(t.get("matchFields")) for t in terms):
        if field.get("key") == "metadata.name":
            return next(iter(texts(field.get("values"))), "")
    return ""


def _by_node(pods: list[Object]) -> dict[str, list[Object]]:
    by_node: dict[str, list[Object]] = {}
    for pod in pods:
        by_node.setdefault(target_node_of(pod), []).append(pod)
    return by_node
