"""A cache and its snapshot: run the `steps` of a case, one line each, and check the results.

What a case may set: `nodes` and `pods` in API form, by the names that steps use. Two of them may be
versions of one object. `generic_workload`: the feature gate is on. `not_in_snapshot`: names of pods
that a snapshot made of all objects lacks.

What happens:

    node A | remove-node A          a node is added, or updated if it is known
    assume A | forget A | add A | update OLD NEW | remove A
    snapshot                        the snapshot is brought up to date, and must then be no other
                                    than one made anew from all there is
    refused STEP                    the cache must refuse this step, or the snapshot
    member A | no-member A          a pod without a node is added to its group, or removed from it

and to the snapshot alone, as in the cycle of a pod group:

    place A | unplace A             a pod is assumed, or forgotten
    placement NODE.. | no-placement the search is narrowed to these nodes, or no longer
    backup | restore                the pods are put back as they were
    take A | put A                  a pod is removed from its node, or put back

What must be so of the cache:

    nodes A.. | assumed A..         exactly these
    holds A | unknown A             a pod in this version, or none
    groups NS/GROUP..               exactly these groups have members
    group NS/GROUP [unscheduled=A,B] [assumed=A,B] [assigned=A,B]    exactly these members

and of the snapshot as it is:

    order A..                       the nodes, in scheduling order
    pods NODE A..                   exactly these are on the node
    requested NODE cpu=100 ..       also non-zero, allocatable
    ports NODE TCP/127.0.0.1/80 ..
    affinity A.. | anti-affinity A..    the nodes with pods that have (required anti-)affinity terms
    wants POD NAMESPACE KEY=VALUE near|away TOPOLOGY_KEY    the only required term of the pod
    claims NAMESPACE/NAME ..        exactly these are in use
    image NAME BYTES NODE.. | no-image NAME
    in-placement NODE.. | outside NODE..    the nodes to search, and others

Upstream's cache has a list of nodes by their last change, which is private there and does not exist
here: such an order is checked as a set.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pytest

from scheduler.api.core import Node, Pod
from scheduler.cache import Cache, CacheError
from scheduler.snapshot import NodeInfo, PodInfo, Snapshot
from scheduler.snapshot.pod_kind import PodKind
from scheduler.testing import snapshot_of
from tests.upstream.loading import Case, node, pod


class _HasTerms:
    """Counts pods that have affinity terms, or required anti-affinity terms."""

    namespaces = None
    wanted_labels = None
    needs_affinity_terms = True

    def __init__(self, *, anti: bool) -> None:
        self.anti: Final = anti

    def __call__(self, kind: PodKind) -> int:
        terms = kind.affinity
        if self.anti:
            return int(bool(terms.required_anti_affinity))
        affinity = (*terms.required_affinity, *terms.preferred_affinity)
        return int(bool((*affinity, *terms.required_anti_affinity, *terms.preferred_anti_affinity)))


_WITH_AFFINITY: Final = _HasTerms(anti=False)
_WITH_ANTI_AFFINITY: Final = _HasTerms(anti=True)


class SnapshotView:
    """The public state of a snapshot; `pods` are those whose claims may be in use."""

    def __init__(self, snapshot: Snapshot, pods: Iterable[Pod]) -> None:
        self.snapshot: Final = snapshot
        self._claims: Final = {
            (pod.metadata.namespace, volume.persistent_volume_claim.claim_name)
            for pod in pods
            for volume in pod.spec.volumes
            if volume.persistent_volume_claim is not None
        }

    def having(self, rule: _HasTerms) -> list[str]:
        counts = self.snapshot.count_pods(rule)
        return [name for name, count in zip(self.snapshot.names, counts, strict=True) if count]

    @property
    def claims(self) -> list[str]:
        users = self.snapshot.volume_index.claim_users
        return sorted(f"{ns}/{name}" for ns, name in self._claims if users(ns, name))

    def everything(self) -> dict[str, Any]:
        images = {}
        for name in self.snapshot.images.names():
            image = self.snapshot.nodes.image(name)
            assert image is not None
            has = self.snapshot.nodes.take(image.present).names
            images[name] = (image.size_bytes, image.num_nodes, has)
        return {
            "nodes": [_facts(info) for info in self.snapshot.nodes],
            "affinity": self.having(_WITH_AFFINITY),
            "anti-affinity": self.having(_WITH_ANTI_AFFINITY),
            "claims": self.claims,
            "images": images,
        }


def _facts(info: NodeInfo) -> tuple[object, ...]:
    pods = {one.uid: one.pod for one in info.pods}
    loads = info.allocatable, info.requested, info.non_zero_requested
    return info.node, pods, *loads, info.host_ports


class CacheStage:
    """A cache, its snapshot, and the objects that steps name."""

    def __init__(self, case: Case) -> None:
        self.nodes: Final[dict[str, Node]] = {
            name: node(value or {}, name=name) for name, value in case.get("nodes", {}).items()
        }
        self.pods: Final[dict[str, Pod]] = {
            name: pod(value or {}, name=name) for name, value in case.get("pods", {}).items()
        }
        self.cache: Final = Cache(generic_workload=case.get("generic_workload", False))
        self.snapshot = Snapshot()
        self._placement: Final = contextlib.ExitStack()
        self._backup: Final = contextlib.ExitStack()

    @classmethod
    def with_snapshot_of_all(cls, case: Case) -> CacheStage:
        """A stage whose snapshot holds all nodes and pods from the start."""
        stage = cls(case)
        late = case.get("not_in_snapshot", ())
        early = [value for name, value in stage.pods.items() if name not in late]
        stage.snapshot = snapshot_of(stage.nodes.values(), early)
        return stage

    @property
    def view(self) -> SnapshotView:
        return SnapshotView(self.snapshot, self.pods.values())

    def play(self, steps: Iterable[str]) -> None:
        """Carry out all steps; an AssertionError names the one that failed."""
        for number, step in enumerate(steps):
            try:
                self._do(*step.split())
                self.cache.check()
            except AssertionError as failure:
                failure.add_note(f"in step {number}: {step}")
                raise

    def _do(self, verb: str, *words: str) -> None:
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        getattr(self, f"do_{verb.replace('-', '_')}")(*names, **options)

    # What happens.

    def do_refused(self, verb: str, *words: str) -> None:
        with pytest.raises((CacheError, KeyError)):
            self._do(verb, *words)

    def do_node(self, name: str) -> None:
        self.cache.add_node(self.nodes[name])

    def do_remove_node(self, name: str) -> None:
        self.cache.remove_node(self.nodes[name])

    def do_assume(self, name: str) -> None:
        self.cache.assume_pod(PodInfo(self.pods[name]))

    def do_forget(self, name: str) -> None:
        self.cache.forget_pod(PodInfo(self.pods[name]))

    def do_add(self, name: str) -> None:
        self.cache.add_pod(PodInfo(self.pods[name]))

    def do_update(self, old: str, new: str) -> None:
        self.cache.update_pod(self.pods[old], PodInfo(self.pods[new]))

    def do_remove(self, name: str) -> None:
        self.cache.remove_pod(self.pods[name])

    def do_snapshot(self) -> None:
        self.cache.update_snapshot(self.snapshot)
        nodes = self.cache.nodes
        assert sorted(self.snapshot.names) == sorted(nodes)
        here = [info.pod for info in self.cache.pods.values() if info.spec.node_name in nodes]
        anew = snapshot_of([nodes[name] for name in self.snapshot.names], here)
        assert self.view.everything() == SnapshotView(anew, self.pods.values()).everything()

    def do_member(self, name: str) -> None:
        self.cache.set_pod_group_member(PodInfo(self.pods[name]))

    def do_no_member(self, name: str) -> None:
        self.cache.remove_pod_group_member(PodInfo(self.pods[name]))

    def do_place(self, name: str) -> None:
        self.snapshot.assume_pod(PodInfo(self.pods[name]))

    def do_unplace(self, name: str) -> None:
        self.snapshot.forget_pod(PodInfo(self.pods[name]))

    def do_placement(self, *names: str) -> None:
        rows = [self.snapshot.row(name) for name in names]
        nodes = self.snapshot.nodes.take(np.array(rows))
        self._placement.enter_context(self.snapshot.placement(nodes))

    def do_no_placement(self) -> None:
        self._placement.close()

    def do_backup(self) -> None:
        before = self.view.everything()
        self._backup.callback(lambda: self._check_as_before(before))
        self._backup.enter_context(self.snapshot.unchanged_pods())

    def _check_as_before(self, before: dict[str, Any]) -> None:
        assert self.view.everything() == before

    def do_restore(self) -> None:
        self._backup.close()

    def do_take(self, name: str) -> None:
        self.snapshot.remove_pod(PodInfo(self.pods[name]))

    def do_put(self, name: str) -> None:
        self.snapshot.add_pod(PodInfo(self.pods[name]))

    # What must be so.

    def do_groups(self, *keys: str) -> None:
        known = {PodInfo(value).pod_group_key for value in self.pods.values()}
        assert {key for key in known if self.cache.pod_group(key) is not None} == set(keys)

    def do_group(self, key: str, **members: str) -> None:
        group = self.cache.pod_group(key)
        assert group is not None
        assumed = set(group.assumed_pods)
        assigned = {info.uid for info in group.scheduled_pods} - assumed
        found = {"unscheduled": set(group.unscheduled_pods), "assumed": assumed}
        for state, uids in (found | {"assigned": assigned}).items():
            names = members[state].split(",") if state in members else []
            assert uids == {self.pods[name].metadata.uid for name in names}, state

    def do_in_placement(self, *names: str) -> None:
        assert self.snapshot.nodes_in_placement.names == list(names)
        assert len(self.snapshot.rows_in_placement(names)) == len(names)

    def do_outside(self, *names: str) -> None:
        assert self.snapshot.rows_in_placement(names) == []
        assert all(name in self.snapshot for name in names)

    def do_nodes(self, *names: str) -> None:
        assert sorted(self.cache.nodes) == sorted(names)

    def do_assumed(self, *names: str) -> None:
        found = {name for name, value in self.pods.items() if self.cache.is_assumed_pod(value)}
        assert found == set(names)
        assert self.cache.statistics().assumed_pods == len(names)

    def do_holds(self, name: str) -> None:
        info = self.cache.get_pod(self.pods[name])
        assert info is not None
        assert info.pod == self.pods[name]

    def do_unknown(self, name: str) -> None:
        assert self.cache.get_pod(self.pods[name]) is None
        assert not self.cache.is_assumed_pod(self.pods[name])

    def do_order(self, *names: str) -> None:
        assert list(self.snapshot.names) == list(names)

    def do_pods(self, node_name: str, *names: str) -> None:
        found = {info.uid: info.pod for info in self.snapshot.get(node_name).pods}
        assert found == {self.pods[name].metadata.uid: self.pods[name] for name in names}

    def do_requested(self, node_name: str, **expected: str) -> None:
        assert self.snapshot.get(node_name).requested == _numbers(expected)

    def do_non_zero(self, node_name: str, **expected: str) -> None:
        assert self.snapshot.get(node_name).non_zero_requested == _numbers(expected)

    def do_allocatable(self, node_name: str, **expected: str) -> None:
        assert self.snapshot.get(node_name).allocatable == _numbers(expected)

    def do_ports(self, node_name: str, *ports: str) -> None:
        found = self.snapshot.get(node_name).host_ports
        assert sorted(f"{p.protocol}/{p.ip}/{p.port}" for p in found) == sorted(ports)

    def do_affinity(self, *names: str) -> None:
        assert sorted(self.view.having(_WITH_AFFINITY)) == sorted(names)

    def do_anti_affinity(self, *names: str) -> None:
        assert sorted(self.view.having(_WITH_ANTI_AFFINITY)) == sorted(names)

    def do_wants(self, name: str, namespace: str, how: str, key: str, /, **labels: str) -> None:
        uid = self.pods[name].metadata.uid
        (info,) = (found for pods in self.snapshot.nodes.pods if (found := pods.get(uid)))
        terms = info.kind.affinity
        wanted, other = terms.required_affinity, terms.required_anti_affinity
        if how == "away":
            wanted, other = other, wanted
        (term,) = wanted
        assert not other
        assert (term.namespaces, term.topology_key) == (frozenset({namespace}), key)
        assert term.wanted_labels == set(labels.items())
        assert not term.namespace_selector.matches({})

    def do_claims(self, *claims: str) -> None:
        assert self.view.claims == sorted(claims)

    def do_image(self, name: str, size_bytes: str, *names: str) -> None:
        image = self.snapshot.nodes.image(name)
        assert image is not None
        assert (image.size_bytes, image.num_nodes) == (int(size_bytes), len(names))
        assert sorted(self.snapshot.nodes.take(image.present).names) == sorted(names)

    def do_no_image(self, name: str) -> None:
        assert self.snapshot.nodes.image(name) is None


def _numbers(texts: Mapping[str, str]) -> dict[str, int]:
    return {key: int(value) for key, value in texts.items()}
