"""What has happened to each pod: a bounded log in memory, to be told when somebody asks why.

    moved      from one place of the queue to another, by which event, and whose hint allowed it
    asked      an event came, and every hint said that it does not help
    attempt    a scheduling cycle: the node chosen and its scores, or who turned which nodes down
    nominated  a node is kept for it, or no longer
    waiting    held at Permit, by whom and how long at most
    bound      it has got its node

Entries are kept as what they are; words are made of them only when they are asked for. The longest
untouched story goes when there are too many, the oldest entry of one that is too long.

An event that helps none of a crowd of waiting pods is kept once, for all of them; it is part of the
story of each for as long as it waits with the others. So such events cost next to nothing, and push
nobody's story out.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scheduler.queue import PodMove, PodsStay
    from scheduler.queue.observer import HintAnswer, Place
    from scheduler.snapshot.pod_info import PodInfo

_Json: TypeAlias = "dict[str, object]"

_PODS_MAX: Final = 4096
_ENTRIES_MAX: Final = 200
#: As many pods as are no crowd: each has the entry in its own story.
_ALONE_MAX: Final = 32


class NodeVerdict(NamedTuple):
    """What a plugin has said of some nodes."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: int


class Attempt(NamedTuple):
    """A scheduling cycle. `result` is `scheduled`, `unschedulable` or `error`, as in metrics.

    `scores` are those of the chosen node, weighted; without a choice between nodes there are none.
    """

    time: float
    number: int
    result: str
    node: str = ""
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    scores: tuple[tuple[str, int], ...] = ()
    message: str = ""
    verdicts: tuple[NodeVerdict, ...] = ()

    def told(self) -> _Json:
        """The entry in words and fields."""
        entry: _Json = {"kind": "attempt", "attempt": self.number, "result": self.result}
        if self.result != "scheduled":
            text = f"attempt {self.number}: {self.result}: {self.message}"
            verdicts = [verdict._asdict() for verdict in self.verdicts]
            return entry | {"text": text, "message": self.message, "verdicts": verdicts}
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


class Nominated(NamedTuple):
    """A node is kept for the pod; an empty name means no longer."""

    time: float
    node: str

    def told(self) -> _Json:
        """The entry in words and fields."""
        text = f"nominated to {self.node}" if self.node else "nominated to no node"
        return {"kind": "nominated", "text": text, "node": self.node}


class WaitingOnPermit(NamedTuple):
    """The pod is held by these plugins, each so many seconds at most."""

    time: float
    node: str
    seconds: Mapping[str, float]

    def told(self) -> _Json:
        """The entry in words and fields."""
        listed = ", ".join(f"{plugin} for {wait:g}s" for plugin, wait in self.seconds.items())
        text = f"waiting on permit for {self.node}: {listed}"
        return {"kind": "waiting", "text": text, "node": self.node, "seconds": dict(self.seconds)}


class Bound(NamedTuple):
    """The pod has got its node."""

    time: float
    node: str

    def told(self) -> _Json:
        """The entry in words and fields."""
        return {"kind": "bound", "text": f"bound to {self.node}", "node": self.node}


class _Moved(NamedTuple):
    """A move in the queue, or an event that did not bring one about."""

    time: float
    source: Place
    target: Place
    event: str
    hints: tuple[HintAnswer, ...]

    def told(self) -> _Json:
        """The entry in words and fields."""
        hints = [
            {"plugin": hint.plugin_name, "event": hint.event_label, "answer": hint.answer}
            for hint in self.hints
        ]
        entry: _Json = {"event": self.event, "hints": hints}
        if self.source == self.target:
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


_Entry: TypeAlias = "Attempt | Nominated | WaitingOnPermit | Bound | _Moved"

#: A `_Moved` as it is kept: there are several of them for each attempt, and made by the thousand.
_Bare: TypeAlias = "tuple[float, Place, Place, str, tuple[HintAnswer, ...]]"


class _Story:
    """One pod's entries, the oldest first."""

    __slots__ = ("_entries", "added", "key", "name", "namespace", "predecessor", "uid")

    def __init__(self, pod: PodInfo, entries_max: int, predecessor: str) -> None:
        self.key: Final = pod.key
        self.namespace: Final = pod.namespace
        self.name: Final = pod.name
        self.uid: Final = pod.uid
        #: The uid of the pod that had the name before, empty if nobody is known to have had it.
        self.predecessor: Final = predecessor
        self._entries: Final[deque[_Entry | _Bare]] = deque(maxlen=entries_max)
        #: How many entries there have been.
        self.added = 0

    def add(self, entry: _Entry | _Bare) -> None:
        self.added += 1
        self._entries.append(entry)

    @property
    def dropped(self) -> int:
        return self.added - len(self._entries)

    @property
    def entries(self) -> list[_Entry]:
        return [_whole(entry) for entry in self._entries]

    def told(self, others: Iterable[_Moved]) -> _Json:
        entries = sorted([*self.entries, *others], key=lambda entry: entry.time)
        return {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "dropped": self.dropped,
            "entries": [{"time": entry.time, **entry.told()} for entry in entries],
        }


def _whole(entry: _Entry | _Bare) -> _Entry:
    return _Moved(*cast("_Bare", entry)) if type(entry) is tuple else cast("_Entry", entry)


def _has_moved(entry: _Entry) -> bool:
    return isinstance(entry, _Moved) and entry.source != entry.target


class PodStories:
    """The stories of the pods touched last; satisfies `scheduler.queue.QueueObserver`."""

    def __init__(self, *, pods_max: int = _PODS_MAX, entries_max: int = _ENTRIES_MAX) -> None:
        self._pods_max: Final = pods_max
        self._entries_max: Final = entries_max
        #: By uid, the longest untouched first.
        self._stories: Final[OrderedDict[str, _Story]] = OrderedDict()
        #: Of pods that had the same name one after another, the last.
        self._by_key: Final[dict[str, _Story]] = {}
        self._crowds: Final[deque[PodsStay]] = deque(maxlen=entries_max)

    def pods_stay(self, stay: PodsStay) -> None:
        """An event does not help these pods, all for one reason."""
        if len(stay.pods) > _ALONE_MAX:
            self._crowds.append(stay)
            return
        for move in stay.moves():
            self.pod_moved(move)

    def pod_moved(self, move: PodMove) -> None:
        """The queue has moved a pod, or asked about one that stays."""
        pod = move.pod.pod_info
        self._add(pod, (move.time, move.source, move.target, move.event_label, move.hints))

    def add(self, pod: PodInfo, entry: Attempt | Nominated | WaitingOnPermit | Bound) -> None:
        """Something else has happened to a pod."""
        self._add(pod, entry)

    def told(self, namespace: str, name: str) -> bytes | None:
        """A pod's story as JSON; None if nothing is known of it, or no longer."""
        story = self._by_key.get(f"{namespace}/{name}")
        if story is None:
            return None
        return msgspec.json.encode(story.told(self._in_crowds(story)))

    def known(self) -> Sequence[str]:
        """The pods with a story, as `namespace/name`, the last touched last."""
        return [story.key for story in self._stories.values()]

    def _in_crowds(self, story: _Story) -> Iterator[_Moved]:
        """What a pod has been asked about together with others since it has begun to wait."""
        since = max((e.time for e in story.entries if _has_moved(e)), default=0.0)
        for stay in self._crowds:
            pod = stay.pods.get(story.key)
            if pod is not None and pod.uid == story.uid and stay.time >= since:
                yield _Moved(stay.time, stay.place, stay.place, stay.event_label, stay.hints)

    def _add(self, pod: PodInfo, entry: _Entry | _Bare) -> None:
        uid = pod.uid
        story = self._stories.get(uid)
        if story is None:
            namesake = self._by_key.get(pod.key)
            if namesake is not None and namesake.predecessor == uid:
                return  # an attempt that was under way when the pod was deleted and created again
            story = self._begin(pod, namesake)
        self._stories.move_to_end(uid)
        story.add(entry)

    def _begin(self, pod: PodInfo, namesake: _Story | None) -> _Story:
        """A pod nobody has heard of; of one that was created again, only this one's is told."""
        story = _Story(pod, self._entries_max, "" if namesake is None else namesake.uid)
        if namesake is not None:
            del self._stories[namesake.uid]
        self._stories[story.uid] = self._by_key[story.key] = story
        if len(self._stories) > self._pods_max:
            _, gone = self._stories.popitem(last=False)
            del self._by_key[gone.key]
        return story
