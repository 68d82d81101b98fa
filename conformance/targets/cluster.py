"""A running cluster with its own scheduler: real time, namespaces and nodes of the suite's own.

    look at the cluster --> a case: namespaces, nodes, objects --> steps --> delete them all

Cases run one after another, because they share the scheduler and the nodes. A case that a running
cluster cannot serve is skipped with a reason: see `why_not`, and `_why_not_here` for reasons that
depend on the cluster.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ..api import ApiClient, Json, Ref
from ..clock import RealClock
from ..connection import Connection
from ..errors import InputError, NotObservable
from ..format.expectation import Expectation
from ..format.objects import objects_of
from ..format.resources import part
from ..format.steps import (
    ClearFaults,
    Create,
    Delete,
    Inject,
    Patch,
    Restart,
    Start,
    Stop,
    UpdateStatus,
)
from .cluster_api import (
    OWNER_LABEL,
    TAINT_OF_NEW_NODES,
    ClusterApi,
    delete_namespace,
    empty_namespace,
)
from .real_time import until_quiet, why_not_in_real_time
from .target import Served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ..clock import Clock
    from ..format.case import Case
    from ..format.steps import Step
    from .target import Surroundings, Target, TargetOptions

#: Kinds that a controller of a cluster writes, so a case cannot write them in its place.
_OF_CONTROLLERS: Final = frozenset({
    "PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget", "ReplicaSet",
    "ReplicationController", "StatefulSet", "VolumeAttachment",
})  # fmt: skip
#: Texts that change beside nodes of the cluster's own: with the number of all nodes, with the
#: number of those that one of the first filters rejects, with the end of the reasons, or cut.
_COUNTS_NODES: Final = re.compile(
    r"nodes are available|no nodes available|\d [^,]*\.['\"]| \.\.\.|"
    r"\d node\(s\) (were unschedulable|had untolerated taint|didn't match Pod's node affinity)"
)
#: The prefix of the taints that the node controller sets and removes.
_TAINT: Final = "node.kubernetes.io/"
#: The permissions without which nothing can be run.
_NEEDED: Final = {
    "namespaces": ("list", "create", "delete"),
    "nodes": ("list", "create", "patch", "delete"),
    "nodes/status": ("patch",),
    "pods": ("list", "watch", "create", "delete"),
}
#: The account that a controller creates in each namespace.
_DEFAULT_ACCOUNT: Final = Ref("ServiceAccount", "default", "default")


class _Facts(NamedTuple):
    """Facts about the cluster before the first case.

    `controlled` means that controllers run in it, `nodes` that it has nodes of its own.
    """

    controlled: bool
    nodes: bool


class ClusterKind:
    """Judges the scheduler that runs in a cluster."""

    def __init__(self, options: TargetOptions) -> None:
        """Read the kubeconfig. Raises InputError."""
        self._options = options
        self._connection = Connection.from_kubeconfig(Path(options.kubeconfig), options.context)
        self._run = secrets.token_hex(3)
        self._numbers = itertools.count(1)
        self._facts: _Facts | None = None
        self._api: ClusterApi | None = None

    def why_not(self, case: Case) -> str | None:
        """Return a reason to skip: the case needs a scheduler or an API server of its own."""
        steps = list(_steps(case))
        kinds = {type(step.action) for step in steps}
        expected = [step.action for step in steps if isinstance(step.action, Expectation)]
        if case.needs_config:
            return "needs a configuration of its own"
        if case.gates:
            return "needs feature gates of its own"
        if case.faults or kinds & {Inject, ClearFaults}:
            return "needs faults of the API server"
        if kinds & {Restart, Start, Stop}:
            return "needs a scheduler that the suite can restart"
        if _depends_on_the_start(case):
            return "needs pods that are there before the scheduler starts"
        if case.reads_metrics and "{port}" in self._options.metrics_url:
            return "reads metrics, and no --metrics-url of the cluster's scheduler is given"
        if any(item.metric is not None for item in expected):
            return "counts from the start of the scheduler"
        if any(TAINT_OF_NEW_NODES in str(obj) for obj in _created(case) if obj["kind"] == "Node"):
            return "needs the taint of new nodes, which all pods of a case tolerate in a cluster"
        return why_not_in_real_time(case, self._options)

    def new_clock(self) -> Clock:
        return RealClock()

    @contextlib.asynccontextmanager
    async def serve(self, case: Case, *, clock: Clock, seed: int) -> AsyncIterator[Served]:
        """Give the case a part of the cluster; delete everything in it afterwards.

        Raises NotObservable if this cluster cannot run the case.
        """
        del clock, seed
        if self._facts is None:
            self._facts = await self._look()
        if reason := _why_not_here(case, self._facts):
            raise NotObservable(reason)
        async with ClusterApi(
            self._connection,
            f"conformance-{self._run}-{next(self._numbers)}",
            run=self._run,
            fenced=self._facts.nodes,
            controlled=self._facts.controlled,
        ) as api:
            self._api = api
            try:
                yield Served(api, api, shares_nodes=self._facts.nodes)
            finally:
                await api.clear()

    @contextlib.asynccontextmanager
    async def run(self, surroundings: Surroundings) -> AsyncIterator[Target]:
        """Use the cluster's scheduler; the suite neither starts nor ends it."""
        del surroundings
        assert self._api is not None, "a case is served before its scheduler is judged"
        yield _ClusterTarget(self._options, self._api)

    async def _look(self) -> _Facts:
        """Return the facts.

        Raises InputError if objects of another run are in the cluster, or if permissions are
        missing.
        """
        async with ApiClient(self._connection) as api:
            missing = [
                f"{verb} {resource}"
                for resource, verbs in _NEEDED.items()
                for verb in verbs
                if not await api.may(verb, resource)
            ]
            if missing:
                raise InputError(
                    f"{self._options.kubeconfig}: its user may not {', '.join(missing)}: a run "
                    "makes namespaces and nodes of its own; conformance/README.md has a ClusterRole"
                )
            left = [*await _left(api, "Namespace"), *await _left(api, "Node")]
            if left:
                raise InputError(
                    f"{self._options.kubeconfig}: objects of another run are in the cluster "
                    f"({', '.join(left[:3])}): let it end, or remove them with "
                    f"kubesched-conformance clean --kubeconfig {self._options.kubeconfig}"
                )
            return _Facts(
                controlled=await api.find(_DEFAULT_ACCOUNT) is not None,
                nodes=bool(await api.list("Node")),
            )


class _ClusterTarget:
    """The scheduler of a running cluster, as far as it can be seen through the API."""

    settles_exactly = False

    def __init__(self, options: TargetOptions, api: ClusterApi) -> None:
        self._options = options
        self._api = api
        self._clock = RealClock()
        self.patience_seconds = options.patience_seconds
        has_url = "{port}" not in options.metrics_url
        self.metrics_url = options.metrics_url if has_url else None

    async def settle(self) -> None:
        """Return when no pod and no event of the case has changed for a while."""
        await until_quiet(
            self,
            lambda: self._api.changes,
            clock=self._clock,
            quiet_seconds=self._options.quiet_seconds,
        )

    def check(self) -> None:
        """Do nothing: the scheduler is not a process of the suite."""

    def log(self) -> tuple[str, ...]:
        return ()


async def clean_cluster(connection: Connection) -> list[str]:
    """Delete all objects that runs have left in a cluster; return their names.

    Raises RequestFailed.
    """
    async with ApiClient(connection) as api:
        controlled = await api.find(_DEFAULT_ACCOUNT) is not None
        removed: list[str] = []
        for name in await _left(api, "Namespace"):
            await empty_namespace(api, name)
            await delete_namespace(api, name, controlled=controlled)
            removed.append(f"namespace {name}")
        for kind in await api.collections(namespaced=False):
            for name in await _left(api, kind.kind, kind.api_version):
                await api.delete_for_good(kind._replace(name=name))
                removed.append(f"{kind.kind.lower()} {name}")
        return removed


async def _left(api: ApiClient, kind: str, api_version: str = "v1") -> list[str]:
    """Return the names of a kind's objects that runs have made."""
    ref = Ref(kind, "", "", api_version)
    objects = (await api.listing(ref, Json, query={"labelSelector": OWNER_LABEL})).items
    metadata = [item["metadata"] for item in objects]
    return [str(item["name"]) for item in metadata if isinstance(item, dict)]


def _why_not_here(case: Case, facts: _Facts) -> str | None:
    """Return a reason why the case cannot be run in such a cluster, or None."""
    if facts.controlled and _plays_a_controller(case):
        return "plays the part of a controller, and controllers run in the cluster"
    if facts.controlled and (_is_tainted(case) or _adds_useless_node(case)):
        return "counts tries, and the cluster would taint a node of the case meanwhile"
    if facts.nodes and any(_counts_nodes(step) for step in _steps(case)):
        return "needs all nodes of the cluster to be its own"
    return None


def _depends_on_the_start(case: Case) -> bool:
    """True if pods that wait from the start have different priorities, or a status of their own."""
    waiting = [
        item.pod
        for item in case.cluster
        if item.pod is not None and item.pod.node is None and not item.pod.scheduling_gates
    ]
    priorities = {(pod.priority, pod.priority_class) for pod in waiting}
    return len(priorities) > 1 or any(pod.status for pod in waiting)


def _plays_a_controller(case: Case) -> bool:
    """True if a case writes what a controller writes, or an object to which a controller reacts."""
    actions = [step.action for step in _steps(case)]
    if any(
        isinstance(each, UpdateStatus) and each.node is not None and "conditions" in each.status
        for each in actions
    ):
        return True
    made = [*_created(case)]
    kinds = {obj["kind"] for obj in made}
    # A controller takes the claim of a pod that goes back, and ends a pod that a finalizer keeps.
    deletes = any(isinstance(each, Delete) and each.pod is not None for each in actions)
    keeps = any(obj["kind"] == "Pod" and part(obj, "metadata").get("finalizers") for obj in made)
    return (
        bool(kinds & _OF_CONTROLLERS)
        or (deletes and "ResourceClaim" in kinds)
        or keeps
        or "NoExecute" in str(made)
    )


def _is_tainted(case: Case) -> bool:
    """True if a node has a taint of the node controller, or is cordoned where tries are counted."""
    changes = [
        str(step.action.patch)
        for step in _steps(case)
        if isinstance(step.action, Patch) and step.action.node is not None
    ]
    nodes = " ".join([*changes, *(str(obj) for obj in _created(case) if obj["kind"] == "Node")])
    return _TAINT in nodes or ("unschedulable" in nodes and any(map(_counts_nodes, _steps(case))))


def _adds_useless_node(case: Case) -> bool:
    """True if tries are counted of a pod that still waits after a step has created a node.

    The cluster taints each new node for a moment, and a taint that goes may bring the pod back.
    """
    steps = [*_steps(case)]
    later = itertools.dropwhile(lambda step: not _creates_node(step), steps)
    return any(
        _counts_nodes(step)
        and isinstance(step.action, Expectation)
        and bool(step.action.not_bound or step.action.unschedulable or step.action.not_requeued_by)
        for step in later
    )


def _creates_node(step: Step) -> bool:
    return isinstance(step.action, Create) and any(
        obj["kind"] == "Node" for item in step.action.objects for obj in objects_of(item)
    )


def _created(case: Case) -> Iterator[Json]:
    """Yield the objects of a case, objects of its steps too."""
    items = [*case.cluster]
    for step in _steps(case):
        if isinstance(step.action, Create):
            items += step.action.objects
    for item in items:
        yield from objects_of(item)


def _counts_nodes(step: Step) -> bool:
    """True if an expectation depends on the number of nodes, or on the reasons of other nodes."""
    expected = step.action
    if not isinstance(expected, Expectation):
        return False
    texts = [expected.unschedulable, expected.condition, expected.event]
    return (
        expected.attempts is not None
        or expected.reads_moves
        or any(_COUNTS_NODES.search(str(text)) for text in texts)
    )


def _steps(case: Case) -> Iterator[Step]:
    return itertools.chain.from_iterable(step.in_order() for step in case.steps)
