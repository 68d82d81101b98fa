"""DaemonSets: a pod for every node that is fit, which the scheduler binds.

Source: pkg/controller/daemon of Kubernetes v1.36.3.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from fakeapi.actors.node_lifecycle import taints_of, tolerates
from fakeapi.actors.objects import has_ended, is_active, is_ready, phase_of, spec_of
from fakeapi.actors.owners.daemon_updates import Daemons, excess, limits_of, replacements
from fakeapi.actors.owners.pods import is_available, pod_from
from fakeapi.actors.owners.revisions import REVISION_LABEL, RevisedOwner
from fakeapi.actors.resources import DAEMON_SETS, NODES
from fakeapi.decoding.selectors import Requirement
from fakeapi.types.objects import (
    Json,
    integer,
    is_deleting,
    labels_of,
    mapping,
    mappings,
    metadata_of,
    name_of,
    namespace_of,
    string_map,
    text,
    texts,
)

if TYPE_CHECKING:
    from fakeapi.actors.controller import Context

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
    """Keeps one pod of each DaemonSet for each node."""

    name = "daemonset-controller"
    resource = DAEMON_SETS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes = self.informer(NODES)
        self._nodes.subscribe(self._node_changed)

    async def sync(self, key: str) -> None:
        """Make, delete and replace pods, then tell. Raises ActorApiError."""
        owner = self.owners.objects.get(key)
        if owner is None:
            return
        pods = await self.claimed(owner, self.pods)
        update, revisions = await self.revise(owner)
        label = name_of(update).removeprefix(f"{name_of(owner)}-")
        by_node = _by_node(pods)
        template = _tolerant(mapping(spec_of(owner).get("template")))
        fit = {name: _fits(template, node) for name, node in sorted(self._nodes.objects.items())}
        if not is_deleting(owner):
            daemons = Daemons(owner, label, by_node, fit, self.clock.now())
            if not await self._manage(daemons, template):
                await self._update(daemons, template)
        await self._tell(owner, label, by_node, fit)
        used = {f"{name_of(owner)}-{labels_of(pod).get(REVISION_LABEL)}" for pod in pods}
        await self.forget_revisions(owner, revisions, used | {name_of(update)})
        wait = integer(spec_of(owner).get("minReadySeconds"))
        self.plan_availability(key, pods, wait)

    async def _manage(self, daemons: Daemons, template: Json) -> bool:
        """One pod on each fit node, none elsewhere; whether there was something to do."""
        owner, by_node, fit = daemons.owner, daemons.by_node, daemons.fit
        surges = limits_of(daemons)[0] > 0
        needy: list[str] = []
        gone = [pod for node in by_node.keys() - fit.keys() for pod in by_node[node]]
        for node, (runs, stays) in fit.items():
            present = by_node.get(node, [])
            if not stays:
                gone += [pod for pod in present if is_active(pod)]
                continue
            for pod in present:
                if has_ended(pod) and not is_deleting(pod):
                    await self._note_end(owner, pod, node)
                    gone.append(pod)
            if runs and (not present or (surges and not any(map(is_active, present)))):
                needy.append(node)
            gone += excess(daemons, node, surges=surges)
        gone = [pod for pod in gone if not is_deleting(pod)]
        await self.delete_pods(owner, gone)
        await self._make(daemons, template, needy)
        return bool(gone or needy)

    async def _note_end(self, owner: Json, pod: Json, node: str) -> None:
        """Say that a pod has ended and goes; the next turn makes another."""
        who = f"{namespace_of(pod)}/{name_of(pod)} on node {node}"
        if phase_of(pod) == "Failed":
            message = f"Found failed daemon pod {who}, will try to kill it"
            await self.tell(owner, "FailedDaemonPod", message, kind="Warning")
        else:
            message = f"Found succeeded daemon pod {who}, will try to delete it"
            await self.tell(owner, "SucceededDaemonPod", message)

    async def _make(self, daemons: Daemons, template: Json, nodes: list[str]) -> None:
        labels = {REVISION_LABEL: daemons.label}
        made = []
        for node in nodes:
            pod = pod_from(self.resource, daemons.owner, template, labels=labels)
            made.append({**pod, "spec": _pinned(spec_of(pod), node)})
        _, failure = await self.create_pods(daemons.owner, made)
        if failure is not None:
            raise failure

    async def _update(self, daemons: Daemons, template: Json) -> None:
        """Let new pods take the place of old ones, within what may be missing or too many."""
        strategy = mapping(mapping(daemons.owner.get("spec")).get("updateStrategy"))
        if strategy.get("type") == "OnDelete":
            return
        gone, nodes = replacements(daemons)
        await self.delete_pods(daemons.owner, gone)
        await self._make(daemons, template, nodes)

    async def _tell(
        self,
        owner: Json,
        label: str,
        by_node: dict[str, list[Json]],
        fit: dict[str, tuple[bool, bool]],
    ) -> None:
        wait, now = integer(spec_of(owner).get("minReadySeconds")), self.clock.now()
        count = dict.fromkeys(("wanted", "here", "astray", "ready", "available", "updated"), 0)
        for node, (runs, _) in fit.items():
            living = [pod for pod in by_node.get(node, []) if is_active(pod)]
            if not runs:
                count["astray"] += bool(living)
                continue
            count["wanted"] += 1
            if living:
                best = min(living, key=lambda pod: not is_ready(pod))
                count["here"] += 1
                count["ready"] += is_ready(best)
                count["available"] += is_available(best, wait, now)
                count["updated"] += labels_of(best).get(REVISION_LABEL) == label
        status: Json = {
            "currentNumberScheduled": count["here"],
            "numberMisscheduled": count["astray"],
            "desiredNumberScheduled": count["wanted"],
            "numberReady": count["ready"],
            "observedGeneration": metadata_of(owner).get("generation"),
        }
        optional = {
            "updatedNumberScheduled": count["updated"],
            "numberAvailable": count["available"],
            "numberUnavailable": count["wanted"] - count["available"],
        }
        status |= {name: value for name, value in optional.items() if value}
        await self.update_status(self.resource, owner, status)

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        if old is not None and new is not None and _node_face(old) == _node_face(new):
            return
        for key in self.owners.objects:
            self.queue.add(key)


def _node_face(node: Json) -> tuple[Json, object]:
    return labels_of(node), taints_of(node, "NoSchedule", "NoExecute")


def _tolerant(template: Json) -> Json:
    """The template with the tolerations that every daemon has."""
    spec = spec_of(template)
    added: list[Json] = [
        {"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED
    ]
    if spec.get("hostNetwork"):
        key = "node.kubernetes.io/network-unavailable"
        added.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    present = mappings(spec.get("tolerations"))
    new = [one for one in added if one not in present]
    return {**template, "spec": {**spec, "tolerations": [*present, *new]}}


def _fits(template: Json, node: Json) -> tuple[bool, bool]:
    """Whether a pod is to run on the node, and whether one that is there may stay."""
    spec = spec_of(template)
    if spec.get("nodeName") not in (None, "", name_of(node)) or not _is_selected(spec, node):
        return False, False
    tolerations = mappings(spec.get("tolerations"))

    def borne(*effects: str) -> bool:
        return all(
            any(tolerates(one, taint) for one in tolerations) for taint in taints_of(node, *effects)
        )

    return borne("NoSchedule", "NoExecute"), borne("NoExecute")


def _is_selected(spec: Json, node: Json) -> bool:
    labels = labels_of(node)
    if not string_map(spec.get("nodeSelector")).items() <= labels.items():
        return False
    required = _required(spec)
    if not required:
        return True
    return any(_term_matches(term, node) for term in mappings(required.get("nodeSelectorTerms")))


def _required(spec: Json) -> Json:
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    return mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))


def _term_matches(term: Json, node: Json) -> bool:
    expressions = mappings(term.get("matchExpressions"))
    fields = mappings(term.get("matchFields"))
    if not expressions and not fields:
        return False
    name: Json = {"metadata.name": name_of(node)}
    return all(_holds(one, labels_of(node)) for one in expressions) and all(
        _holds(one, name) for one in fields
    )


def _holds(expression: Json, labels: Json) -> bool:
    operator = _OPERATORS.get(text(expression.get("operator")), "in")
    values = frozenset(texts(expression.get("values")))
    return Requirement(text(expression.get("key")), operator, values).matches(labels)


def _pinned(spec: Json, node: str) -> Json:
    """The spec for one node: its name takes the place of other fields in every term."""
    field: Json = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = mappings(_required(spec).get("nodeSelectorTerms")) or [{}]
    pinned = [{**term, "matchFields": [field]} for term in terms]
    affinity = mapping(spec.get("affinity"))
    node_affinity = {
        **mapping(affinity.get("nodeAffinity")),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": pinned},
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def target_node_of(pod: Json) -> str:
    """The node that a daemon's pod is on or for."""
    spec = spec_of(pod)
    if spec.get("nodeName"):
        return text(spec["nodeName"])
    terms = mappings(_required(spec).get("nodeSelectorTerms"))
    for field in itertools.chain.from_iterable(mappings(t.get("matchFields")) for t in terms):
        if field.get("key") == "metadata.name":
            return next(iter(texts(field.get("values"))), "")
    return ""


def _by_node(pods: list[Json]) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for pod in pods:
        found.setdefault(target_node_of(pod), []).append(pod)
    return found
