"""A ledger over a cluster of objects in memory."""

from functools import cached_property
from typing import Any

from scheduler.api.core import Pod
from scheduler.api.unstructured import Unstructured
from scheduler.config import DEFAULT_FEATURE_GATES, GENERIC_WORKLOAD
from scheduler.queues.jobs import Job
from scheduler.queues.ledger import Ledger
from scheduler.queues.objects import (
    GROUP_NAME_ANNOTATION,
    POD_GROUP_KINDS,
    PRIORITY_CLASS_KIND,
    QUEUE_KINDS,
)
from scheduler.testing import FakeHandle, make_pod
from scheduler.testing.doubles import FakeLister

QUEUE, GROUP = QUEUE_KINDS[0], POD_GROUP_KINDS[0]
KINDS = (
    *("nodes", "pods", "podgroups", "poddisruptionbudgets"),
    *(*QUEUE_KINDS, *POD_GROUP_KINDS, PRIORITY_CLASS_KIND),
)


class Cluster:
    """A ledger, the objects of its cluster, and the jobs that it reports."""

    def __init__(self) -> None:
        self.handle = FakeHandle(
            listers={kind: FakeLister() for kind in KINDS},
            feature_gates=DEFAULT_FEATURE_GATES | {GENERIC_WORKLOAD},
        )
        #: The keys of the jobs that may have room.
        self.has_room: list[str] = []
        self.ledger.listeners.append(self)

    @cached_property
    def ledger(self) -> Ledger:
        return self.handle.shared(Ledger)

    def on_room(self, jobs: list[Job]) -> None:
        self.has_room += [job.key for job in jobs]

    def on_new_task(self, job: Job) -> None:
        """Not recorded."""

    def on_change(self, job: Job) -> None:
        """Not recorded."""

    def put(self, kind: str, new: Any, old: Any = None) -> Any:
        self.handle.change(kind, old, new)
        return new

    def queue(self, name: str = "a", weight: object = 1) -> Unstructured:
        return Unstructured({"metadata": {"name": name}, "spec": {"weight": weight}})

    def group(self, queue: str = "a", **spec: object) -> Unstructured:
        metadata = {"name": "g", "namespace": "default"}
        return Unstructured({"metadata": metadata, "spec": {"queue": queue, **spec}})

    def member(self, name: str = "p", *, group: str = "g", **fields: Any) -> Pod:
        annotations = {GROUP_NAME_ANNOTATION: group} if group else {}
        return make_pod(name, annotations=annotations, requests={"cpu": "1"}, **fields)

    @property
    def job(self) -> Job:
        return self.ledger.jobs["default/g"]
