"""The story of each pod and pod group: a bounded log in memory of what has happened to it.

    moved      from one place of the queue to another, by which event, and the hints' answers
    asked      an event after which the pod stays: no queueing hint requeued it
    attempt    a scheduling cycle: the node chosen and its scores, or the rejections by plugin
    reserved   resources that plugins have taken for the pod, such as devices
    nominated  the pod is nominated to a node, or no longer; for which victims
    preempted  the pod is the victim of another pod
    waiting    held at Permit, by which plugins and for how long at most
    bound      bound to its node

The story of a group has an `attempt` for each cycle of the group, with the nodes of its members.

Entries are turned into JSON only when a story is requested. The story that was extended least
recently is dropped when there are too many, and the oldest entry of a story that is too long.

Events one after another that do not help are one entry of the JSON, and so are rejections of one
plugin with equal reasons.

If an event helps none of many waiting pods, one entry is kept for all of them. It is part of each
pod's story as long as the pod waits with the others. So such events cost little, and no story is
dropped because of them.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from scheduler.lru_cache import LruCache
from scheduler.queue import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scheduler.framework.failures import PluginFailure
    from scheduler.queue import HintAnswer, HintsSkipped, Move, Moves
    from scheduler.snapshot.pod_info import PodInfo

_Json: TypeAlias = "dict[str, object]"

_PODS_MAX: Final = 4096
_ENTRIES_MAX: Final = 200
#: Up to this many pods that stay after an event, each gets an entry in its own story.
_OWN_ENTRIES_MAX: Final = 32


class RejectedNodes(NamedTuple):
    """The number of nodes that a plugin rejected with one status."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: int


class Attempted(NamedTuple):
    """A scheduling cycle. `result` is `scheduled`, `unschedulable` or `error`, as in metrics.

    `scores` are the chosen node's weighted scores; empty if only one node was feasible.
    """

    time: float
    number: int
    result: str
    node: str = ""
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    scores: tuple[tuple[str, int], ...] = ()
    message: str = ""
    rejected: tuple[RejectedNodes, ...] = ()
    failure: PluginFailure | None = None

    def as_json(self) -> _Json:
        entry: _Json = {"kind": "attempt", "attempt": self.number, "result": self.result}
        if self.failure is not None:
            entry["failure"] = self.failure._asdict()
        if self.result != "scheduled":
            text = f"attempt {self.number}: {self.result}: {self.message}"
            rejected = [nodes._asdict() for nodes in _merged(self.rejected)]
            return entry | {"text": text, "message": self.message, "verdicts": rejected}
        total = sum(score for _, score in self.scores)
        text = (
            f"attempt {self.number}: {self.node}, one of {self.feasible_nodes} feasible of "
            f"{self.evaluated_nodes} evaluated nodes"
        )
        if self.scores:
            listed = ", ".join(f"{plugin} {score}" for plugin, score in self.scores)
            text += f", with the score {total} ({listed})"
        return entry | {
            "text": text,
            "node": self.node,
            "evaluated_nodes": self.evaluated_nodes,
            "feasible_nodes": self.feasible_nodes,
            "scores": dict(self.scores),
            "total_score": total,
        }


def _merged(rejected: Iterable[RejectedNodes]) -> Iterable[RejectedNodes]:
    """Return the rejections, with one for the equal reasons of a plugin."""
    found: dict[tuple[str, tuple[str, ...]], RejectedNodes] = {}
    for each in rejected:
        key = (each.plugin, each.reasons)
        known = found.get(key)
        if known is None:
            found[key] = each
            continue
        codes = dict.fromkeys((*known.code.split(", "), each.code))
        found[key] = known._replace(code=", ".join(codes), nodes=known.nodes + each.nodes)
    return found.values()


class Nominated(NamedTuple):
    """The pod is nominated to a node; an empty name ends the nomination.

    `victims` are the keys of the pods that preemption evicts for it.
    """

    time: float
    node: str
    victims: tuple[str, ...] = ()

    def as_json(self) -> _Json:
        text = f"nominated to {self.node}" if self.node else "nominated to no node"
        if self.victims:
            text += f": preempts {', '.join(self.victims)}"
        victims = list(self.victims)
        return {"kind": "nominated", "text": text, "node": self.node, "victims": victims}


class Preempted(NamedTuple):
    """The pod is evicted from its node, so that another pod fits there."""

    time: float
    node: str
    preemptor: str

    def as_json(self) -> _Json:
        text = f"preempted by {self.preemptor} on {self.node}"
        return {
            "kind": "preempted",
            "text": text,
            "node": self.node,
            "preemptor": self.preemptor,
        }


class Reserved(NamedTuple):
    """Plugins have taken resources for the pod on its node; one line for each."""

    time: float
    node: str
    notes: tuple[str, ...]

    def as_json(self) -> _Json:
        text = f"reserved on {self.node}: {'; '.join(self.notes)}"
        return {"kind": "reserved", "text": text, "node": self.node, "notes": list(self.notes)}


class WaitingOnPermit(NamedTuple):
    """Plugins hold the pod at Permit, each for at most the seconds given."""

    time: float
    node: str
    seconds: Mapping[str, float]

    def as_json(self) -> _Json:
        listed = ", ".join(f"{plugin} for {wait:g}s" for plugin, wait in self.seconds.items())
        text = f"waiting on permit for {self.node}: {listed}"
        return {"kind": "waiting", "text": text, "node": self.node, "seconds": dict(self.seconds)}


class Bound(NamedTuple):
    """The pod is bound to its node."""

    time: float
    node: str

    def as_json(self) -> _Json:
        return {"kind": "bound", "text": f"bound to {self.node}", "node": self.node}


class GroupAttempted(NamedTuple):
    """A cycle of a pod group.

    `result` is `scheduled`, `unschedulable`, `waiting_on_preemption` or `error`, as in metrics.
    `nodes` has the node of each member that was tried, by the member's key; empty for a member that
    did not fit. `placement` is the chosen domain.
    """

    time: float
    result: str
    message: str
    nodes: Mapping[str, str]
    placement: str = ""

    def as_json(self) -> _Json:
        fitting = sum(map(bool, self.nodes.values()))
        text = f"attempt: {self.result}: {fitting} of {len(self.nodes)} members fit"
        if self.placement:
            text += f" in {self.placement}"
        if self.message:
            text += f": {self.message}"
        return {
            "kind": "attempt",
            "result": self.result,
            "text": text,
            "message": self.message,
            "placement": self.placement,
            "nodes": dict(self.nodes),
        }


def _hint_json(hint: HintAnswer) -> _Json:
    return {"plugin": hint.plugin_name, "event": hint.event_label, "answer": hint.answer}


class _Moved(NamedTuple):
    """A move in the queue; a pod that stays after an event has `source` equal to `target`.

    `failure` is an exception of a PreEnqueue plugin, because of which the pod is gated.
    """

    time: float
    source: Place
    target: Place
    event: str
    hints: tuple[HintAnswer, ...]
    failure: PluginFailure | None = None

    @property
    def stays(self) -> bool:
        return self.source == self.target

    def as_json(self) -> _Json:
        hints = [_hint_json(hint) for hint in self.hints]
        entry: _Json = {"event": self.event, "hints": hints}
        if self.failure is not None:
            entry["failure"] = self.failure._asdict()
        if self.stays:
            text = f"{self.event} does not help: stays {self.source}"
            return {"kind": "asked", "text": text, "place": str(self.source)} | entry
        reason = f" by {self.event}" if self.event else ""
        text = f"{self.source} -> {self.target}{reason}"
        return {
            "kind": "moved",
            "text": text,
            "from": str(self.source),
            "to": str(self.target),
        } | entry


#: The entries that a scheduling or binding cycle adds.
CycleEntry: TypeAlias = "Attempted | Reserved | Nominated | Preempted | WaitingOnPermit | Bound"
_Entry: TypeAlias = "CycleEntry | GroupAttempted | _Moved"


#: Entries that show what has become of a pod.
_OUTCOMES: Final = (Attempted, WaitingOnPermit, Bound, Preempted)


def _runs(entries: Iterable[_Entry]) -> Iterator[_Json]:
    """Yield entries as JSON; events one after another that do not help are one entry."""

    def run(entry: _Entry) -> object:
        return entry.source if isinstance(entry, _Moved) and entry.stays else id(entry)

    for _, group in itertools.groupby(entries, run):
        first, *others = group
        if others:
            yield _stays([each for each in (first, *others) if isinstance(each, _Moved)])
        else:
            yield {"time": first.time, **first.as_json()}


def _stays(run: Sequence[_Moved]) -> _Json:
    """Return one entry for several events that do not help, with the number of each."""
    place, numbers = str(run[0].source), Counter(stay.event for stay in run)
    events = ", ".join(f"{n:,} {event}" if n > 1 else event for event, n in numbers.items())
    hints = {hint: _hint_json(hint) for stay in run for hint in stay.hints}
    plugins = dict.fromkeys(hint.plugin_name for hint in hints)
    answered = f" ({', '.join(plugins)})" if plugins else ""
    return {
        "time": run[0].time,
        "until": run[-1].time,
        "kind": "asked",
        "text": f"{events} do not help{answered}: stays {place}",
        "place": place,
        "events": dict(numbers),
        "hints": list(hints.values()),
    }


class LatestPod(NamedTuple):
    """A pod whose story was extended lately.

    `outcome` comes from the last attempt, wait or binding, else it is the kind of the last entry.
    `text` is that entry's text. `cause` is equal for pods with the same outcome for the same
    reason.
    """

    key: str
    outcome: str
    text: str
    cause: str


class _Story:
    """The entries of one pod or group, the oldest first."""

    __slots__ = ("added", "entries", "key", "name", "namespace", "uid")

    def __init__(self, key: str, uid: str, entries_max: int) -> None:
        self.key: Final = key
        self.namespace, _, self.name = key.rpartition("/")
        self.uid: Final = uid
        self.entries: Final[deque[_Entry]] = deque(maxlen=entries_max)
        #: The number of entries ever added.
        self.added = 0

    def add(self, entry: _Entry) -> None:
        self.added += 1
        self.entries.append(entry)

    def as_json(self, shared: Iterable[_Moved]) -> _Json:
        entries = sorted([*self.entries, *shared], key=lambda entry: entry.time)
        return {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "dropped": self.added - len(self.entries),
            "entries": list(_runs(entries)),
        }


class PodStories:
    """The stories of the pods and the groups touched last."""

    def __init__(self, *, pods_max: int = _PODS_MAX, entries_max: int = _ENTRIES_MAX) -> None:
        self._entries_max: Final = entries_max
        #: By `namespace/name`, the least recently extended first.
        self._stories: Final[LruCache[str, _Story]] = LruCache(pods_max)
        self._groups: Final[LruCache[str, _Story]] = LruCache(pods_max)
        #: Entries shared by many pods, the oldest first.
        self._shared: Final[deque[HintsSkipped]] = deque(maxlen=entries_max)

    def record(self, moves: Moves) -> None:
        """Record the moves in the queue, and the events after which pods stay."""
        for skipped in moves.skipped:
            if len(skipped.pods) > _OWN_ENTRIES_MAX:
                self._shared.append(skipped)
            else:
                for stay in skipped.moves():
                    self._record(stay)
        # A pod moves once in a call: the moves before these would be dropped at its end.
        for move in moves.moved[-self._stories.maxsize :]:
            self._record(move)

    def _record(self, move: Move) -> None:
        at, pod, source, target, event, hints, failure = move
        entry = _Moved(at, source, target, event, hints, failure)
        self.add(pod.pod_info, entry, is_new=source == Place.OUTSIDE)

    def add(self, pod: PodInfo, entry: CycleEntry | _Moved, *, is_new: bool = False) -> None:
        """Add an entry to a pod's story; `is_new` if it is the arrival of the pod in the queue.

        A pod that was deleted and created again arrives anew, and its story replaces the one of
        its predecessor. An attempt of the predecessor may still be under way then: its entries
        are dropped.
        """
        story = self._stories.get(pod.key)
        if story is None or story.uid != pod.uid:
            if story is not None and not is_new:
                return
            story = _Story(pod.key, pod.uid, self._entries_max)
        self._stories.put(pod.key, story)
        story.add(entry)

    def add_to_group(self, key: str, uid: str, entry: GroupAttempted) -> None:
        """Add an entry to the story of a group, `namespace/name`."""
        story = self._groups.get(key)
        if story is None or story.uid != uid:
            story = _Story(key, uid, self._entries_max)
        self._groups.put(key, story)
        story.add(entry)

    def group_as_json(self, namespace: str, name: str) -> bytes | None:
        """Return a group's story as JSON; None if there is no story, or no longer."""
        story = self._groups.get(f"{namespace}/{name}")
        return None if story is None else msgspec.json.encode(story.as_json(()))

    def as_json(self, namespace: str, name: str) -> bytes | None:
        """Return a pod's story as JSON; None if there is no story, or no longer."""
        story = self._stories.get(f"{namespace}/{name}")
        if story is None:
            return None
        return msgspec.json.encode(story.as_json(self._shared_entries(story)))

    def known(self) -> Sequence[str]:
        """Return the pods with a story, as `namespace/name`, the most recently extended last."""
        return list(self._stories)

    def latest(self, pods_max: int) -> Iterator[LatestPod]:
        """Yield the pods extended last, the latest first."""
        for story in itertools.islice(reversed(self._stories.values()), pods_max):
            outcomes = (e for e in reversed(story.entries) if isinstance(e, _OUTCOMES))
            entry = next(outcomes, story.entries[-1])
            content = entry.as_json()
            outcome = entry.result if isinstance(entry, Attempted) else str(content["kind"])
            cause = entry.message if isinstance(entry, Attempted) else ""
            yield LatestPod(story.key, outcome, str(content["text"]), cause or outcome)

    def _shared_entries(self, story: _Story) -> Iterator[_Moved]:
        """Yield the shared entries since the pod began to wait where it waits."""
        moves = [e.time for e in story.entries if isinstance(e, _Moved) and not e.stays]
        since = max(moves, default=0.0)
        for stay in self._shared:
            pod = stay.pods.get(story.key)
            if pod is not None and pod.uid == story.uid and stay.at >= since:
                yield _Moved(stay.at, stay.place, stay.place, stay.event_label, stay.hints)
