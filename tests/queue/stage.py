"""A queue that carries out commands of one line: the common part of all recorded steps.

add A.. | delete A.. | activate A.. | done A
fail A PLUGIN.. [pending=P,P] [fresh=yes]     its attempt is over; fresh: all counts are new
event LABEL [only=A,B|never]                   only: the pods that the check before it lets pass
nominate A [NODE] | unnominate A
wait SECONDS
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler.api.core import Pod
from scheduler.framework.events import (
    EVENT_FORCE_ACTIVATE,
    EVENT_UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
    QueueingHintFn,
)
from scheduler.framework.types import NominatingInfo, NominatingMode
from scheduler.queue import QueuedPodInfo
from scheduler.queue.active_queue import InFlightEvent
from scheduler.snapshot.pod_info import PodInfo
from tests.queue.world import Hints, World

_ALL: Final = (*ActionType, ActionType.UPDATE, ActionType.ALL)
_ACTIONS: Final = {str(action): action for action in _ALL}
_EVENTS: Final = {
    event.label: event
    for event in (
        *(ClusterEvent(resource, action) for resource in EventResource for action in _ALL),
        EVENT_UNSCHEDULABLE_TIMEOUT,
        EVENT_FORCE_ACTIVATE,
    )
}


def event_of(text: str) -> ClusterEvent:
    """Return the event of a label, or of `RESOURCE/ACTION`.

    Several labels of one resource with `|` between them are one event.
    """
    resource, _, name = text.partition("/")
    if name in _ACTIONS:
        return ClusterEvent(resource, _ACTIONS[name])
    events = [_EVENTS[label] for label in text.split("|")]
    action = ActionType.NONE
    for event in events:
        action |= event.action_type
    return events[0] if len(events) == 1 else ClusterEvent(events[0].resource, action)


def hint_of(answer: str, plugin: str = "", asked: list[str] | None = None) -> QueueingHintFn:
    """A hint that answers Queue, Skip or Error, and notes in `asked` that it was."""

    def hint(pod: PodInfo, old: object, new: object) -> QueueingHint:
        if asked is not None:
            asked.append(plugin)
        if answer == "Error":
            raise RuntimeError("the hint is broken")
        return QueueingHint.QUEUE if answer == "Queue" else QueueingHint.QUEUE_SKIP

    return hint


def hints_of(answers: Mapping[str, Mapping[str, str]], asked: list[str] | None = None) -> Hints:
    """Hints by event from the answers by label and plugin."""
    return {
        event_of(label): [
            (plugin, hint_of(answer, plugin, asked)) for plugin, answer in by_plugin.items()
        ]
        for label, by_plugin in answers.items()
    }


class Stage(World):
    """A queue, the time, and the pods that commands name."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: The pods by the names that commands use.
        self.pods: Final[dict[str, Pod]] = {}
        #: The pods whose attempts are not over, by UID.
        self.popped: Final[dict[str, QueuedPodInfo]] = {}

    def carry_out(self, line: str) -> None:
        verb, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = self.names_of(word for word in words if "=" not in word)
        getattr(self, f"do_{verb.replace('-', '_')}")(*names, **options)

    def names_of(self, words: Iterable[str]) -> list[str]:
        return list(words)

    def pod(self, name: str) -> Pod:
        return self.pods[name]

    def do_add(self, *names: str) -> None:
        self.add(*map(self.pod, names))

    def do_delete(self, *names: str) -> None:
        for name in names:
            self.delete(self.pod(name))

    def do_fail(self, name: str, *plugins: str, pending: str = "", fresh: str = "") -> None:
        pod_info = PodInfo(self.pod(name))
        info = self.popped.pop(pod_info.uid)
        if fresh:
            info = QueuedPodInfo(pod_info, timestamp=self.now)
        info.pod_info = pod_info
        self.give_back(info, *plugins, pending=filter(None, pending.split(",")))

    def do_done(self, name: str) -> None:
        (uid,) = [uid for uid, info in self.popped.items() if info.pod_info.name == name]
        del self.popped[uid]
        self.done(uid)

    def do_activate(self, *names: str) -> None:
        for name in names:
            self.activate(self.pod(name))

    def do_event(self, label: str, only: str | None = None) -> None:
        def check(pod_info: PodInfo) -> bool:
            assert only not in (None, "never"), "nobody may be checked"
            return pod_info.name in str(only).split(",")

        self.event(event_of(label), pre_check=check if only else None)

    def do_nominate(self, name: str, node: str | None = None) -> None:
        info = None if node is None else NominatingInfo(node, NominatingMode.OVERRIDE)
        self.nominate(self.pod(name), info)

    def do_unnominate(self, name: str) -> None:
        self.queue.nominator.delete_nominated_pod_if_exists(PodInfo(self.pod(name)))

    def do_wait(self, seconds: str) -> None:
        self.now += float(seconds)

    def in_flight(self) -> list[str]:
        """The names of the pods and events in flight, in order."""
        entries = self.queue.in_flight.entries()
        return [e.event.label if isinstance(e, InFlightEvent) else e.pod_info.name for e in entries]
