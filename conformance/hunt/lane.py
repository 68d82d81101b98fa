"""A lane: one API server and one scheduler, in which world after world runs and is judged.

A world begins in an empty cluster: the objects of the world before are deleted first. A lane that
cannot be emptied, or whose scheduler has died, is given up.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..api import Ref, ref_of
from ..errors import RequestFailed
from ..format.case import case_of
from ..format.objects import objects_of
from ..format.resources import objects, part
from ..format.steps import Create, Step, in_order
from ..invariants import INVARIANTS
from ..invariants.history import History
from ..judge.tally import Tally
from ..outcome import ALL_ASPECTS, Verdict
from ..run.observation import Recorder
from ..run.running import Progress, started
from .vocabulary import COPY, WAITER
from .world import with_control

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from pathlib import Path

    from ..api import Json
    from ..format.case import Case
    from ..invariants import Violation
    from ..run.observation import Observation
    from ..run.running import Running
    from ..targets.target import TargetKind
    from .world import World

_SELECTED: Final = "volume.kubernetes.io/selected-node"
#: Kinds that the server or the scheduler makes by itself, or that worlds share.
_KEPT: Final = frozenset({"Lease", "Event", "PriorityClass", "APIService"})
_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
#: In real time the shortest backoff that there is.
_CONFIG: Final[Json] = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 2}
_DISKS: Final = ("'gcePersistent", "'awsElastic", "'rbd'", "'iscsi'")
#: Parts of a case in which an invariant does not judge. A pod may have no condition if that was
#: refused, if its volumes are being bound, or while its group waits; the rules of `no_pod_starved`
#: know neither groups nor disks; a scheduler that ends loses the events that it has not sent;
#: evictions that take seconds may be for a pod that is gone. After some expired watches a client
#: waits for many seconds before it lists again.
_UNJUDGED: Final[Mapping[str, tuple[str, ...]]] = {
    "no_pod_lost": ("'pods/status'", "'persistentVolumeClaim'", "'pod_group'", "'expired'"),
    "no_pod_starved": ("'pod_group'", "'expired'", *_DISKS),
    "events_agree": ("'restart'",),
    "victims_of_lower_priority": ("'delay'",),
    "victims_minimal": ("'delay'",),
    "victims_asked_once": ("'delay'",),
}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The result of a world.

    `verdict` is `woken`, `lost`, `unplaced` (a placement exists, and was not found), `no remedy`
    (the copy is not bound), `no reason` (the waiter was bound at once, or waits for another
    reason) or `refused` (the server refused a step).
    """

    verdict: str
    text: str = ""
    violations: tuple[Violation, ...] = ()


class Lane:
    """A running server and scheduler. Worlds run one after another."""

    def __init__(self, running: Running, recorder: Recorder) -> None:
        self._running = running
        self._recorder = recorder

    async def run(self, world: World) -> Seen:
        """Run a world, judge it, and empty the cluster. Raises ConformanceError for a dead lane."""
        raw = world.raw if world.members is not None else with_control(world.raw, world.changed)
        case = case_of(raw, area="hunt", origin="hunt")
        self._recorder.forget()
        try:
            return await self._run(world, case)
        except RequestFailed as error:
            return Seen(verdict="refused", text=str(error))
        finally:
            await self._empty(case)

    async def _run(self, world: World, case: Case) -> Seen:
        running = self._running
        if case.cluster:
            await running.carry_out([Step("cluster", Create(objects=[*case.cluster]))])
            await running.target.settle()
        if world.members is not None:
            await running.carry_out(case.steps)
        else:
            *course, settle, control, last = case.steps
            start = world.first + bool(world.message)
            await running.carry_out(course[:start])
            message = _message(_pod_in(self._seen(case).objects(), WAITER))
            await running.carry_out([*course[start:], settle])
            if world.message not in message:
                broken = _violations(world, self._seen(case))
                return Seen(verdict="no reason", text=message, violations=broken)
            if judged(self._seen(case), world)[0] != "woken":
                await running.carry_out([control, last])
        seen = self._seen(case)
        verdict, text = judged(seen, world)
        return Seen(verdict=verdict, text=text, violations=_violations(world, seen))

    def _seen(self, case: Case) -> Observation:
        return self._recorder.observation(case.outcome(Verdict.PASSED))

    async def _empty(self, case: Case) -> None:
        """Delete the objects of a world, and wait until the scheduler has seen it."""
        api = self._running.api
        await api.clear_faults()
        # The scheduler makes claims for extended resources.
        refs = [*_made(case)]
        for kind, version in (("ResourceClaim", "resource.k8s.io/v1"), ("Pod", "v1")):
            found = await api.list(kind, api_version=version)
            refs += [ref_of({**each, "apiVersion": version, "kind": kind}) for each in found]
        for ref in dict.fromkeys(reversed(refs)):
            with contextlib.suppress(RequestFailed):
                if ref.kind in ("ResourceClaim", "PersistentVolumeClaim", "PersistentVolume"):
                    await api.delete_for_good(ref)
                elif ref.kind == "Namespace":
                    await api.delete(ref)
                    await api.finalize_namespace(ref.name)
                elif ref.kind not in _KEPT and ref.name not in _NAMESPACES:
                    await api.delete(ref)
        await self._running.target.settle()
        self._running.target.check()


@contextlib.asynccontextmanager
async def lane(
    kind: TargetKind,
    *,
    gates: Mapping[str, bool],
    configures: bool,
    seed: int,
    folder: Path | None = None,
) -> AsyncIterator[Lane]:
    """Run a lane while the block runs. `configures`: in real time the backoff can be shortened."""
    raw: Json = {
        "name": "lane",
        "source": "hunt",
        "steps": [{"wait_until_settled": None}],
        **({"gates": {**gates}} if gates else {}),
        **({"config": _CONFIG} if configures else {}),
    }
    case = case_of(raw, area="hunt", origin="hunt")
    recorder = Recorder()
    starting = started(
        case,
        kind,
        seed=seed,
        observer=recorder,
        tally=Tally(case, ALL_ASPECTS),
        progress=Progress(),
        folder=folder,
    )
    async with starting as running:
        # A world has the steps in which the lane waits.
        running.target.settles_exactly = False
        yield Lane(running, recorder)


def judged(seen: Observation, world: World) -> tuple[str, str]:
    """Return the verdict on a world that has run, and a text."""
    end = seen.objects()
    if world.members is not None:
        members = [_pod_in(end, name) for name in world.members]
        left = [pod for pod in members if not _is_on(pod, world.place)]
        return ("unplaced", f"a placement exists: {_message(left[0])}") if left else ("woken", "")
    controls = (each for each in seen.changes if (each.resource, each.name) == ("pods", COPY))
    control = next(controls, None)
    before = seen.objects_before(control.resource_version if control else None)
    waiter, copied = _pod_in(before, WAITER), _pod_in(end, COPY)
    if waiter is None or _is_placed(waiter, before):
        return "woken", ""
    if copied is None or not _is_placed(copied, end):
        return "no remedy", f"the copy is not bound: {_message(copied)}"
    return "lost", f"pod {WAITER} still waits ({_message(waiter)}), and its copy is bound"


def _violations(world: World, seen: Observation) -> tuple[Violation, ...]:
    """Return the promises of single decisions that a world has broken."""
    history, text = History(seen), str(world.raw)
    return tuple(
        violation
        for name, one in INVARIANTS.items()
        if one.check is not None and not any(p in text for p in _UNJUDGED.get(name, ()))
        for violation in one.check(history)
    )


def _pod_in(there: Iterable[Json], name: str) -> Json | None:
    pods = (obj for obj in there if obj["kind"] == "Pod" and part(obj, "metadata")["name"] == name)
    return next(pods, None)


def _is_on(pod: Json | None, place: str) -> bool:
    """Return True if a pod has a node, or one is nominated for it: `place`, or any if empty."""
    node_name = part(pod or {}, "spec").get("nodeName")
    name = node_name or part(pod or {}, "status").get("nominatedNodeName")
    return name == place if place else bool(name)


def _is_placed(pod: Json, there: Iterable[Json]) -> bool:
    """Return True if a pod has a node, or a node is chosen and its volumes are being bound."""
    spec = part(pod, "spec")
    names = {
        part(volume, "persistentVolumeClaim").get("claimName")
        for volume in objects(spec.get("volumes"))
    }
    specs = [(obj["kind"], part(obj, "metadata"), part(obj, "spec")) for obj in there]
    chosen = {
        part(disk, "claimRef").get("name") for kind, _, disk in specs if kind == "PersistentVolume"
    }
    return bool(spec.get("nodeName")) or any(
        claim["name"] in names
        and not wanted.get("volumeName")
        and (_SELECTED in part(claim, "annotations") or claim["name"] in chosen)
        for kind, claim, wanted in specs
        if kind == "PersistentVolumeClaim"
    )


def _made(case: Case) -> list[Ref]:
    """Return the objects that a world makes, in order."""
    items = [*case.cluster]
    for step in in_order(case.steps):
        if isinstance(step.action, Create):
            items += step.action.objects
    return [ref_of(obj) for item in items for obj in objects_of(item)]


def _message(pod: Json | None) -> str:
    """Return the message of the condition PodScheduled; empty without one."""
    if pod is None:
        return "the pod does not exist"
    for condition in objects(part(pod, "status").get("conditions")):
        if condition.get("type") == "PodScheduled":
            return str(condition.get("message", ""))
    return ""
