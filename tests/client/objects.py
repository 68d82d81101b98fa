"""Objects as the API server sends them, and typed; and clocks for tests of the client."""

import asyncio
from collections.abc import Mapping

from scheduler.api.core import ObjectMeta, Pod


class InstantClock:
    """Every sleep is over at once, and is remembered; time moves by what was slept."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


def pod_json(name: str, version: str = "1", **more: object) -> dict[str, object]:
    """A pod as JSON, with its kind first, as every server writes it."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": version,
        },
        **more,
    }


def pod(name: str, version: str = "1", *, namespace: str = "default", uid: str = "") -> Pod:
    """The same, typed."""
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"uid-{name}",
            resource_version=version,
        )
    )


def event_json(kind: str, obj: Mapping[str, object]) -> dict[str, object]:
    """A line of a watch."""
    return {"type": kind, "object": obj}


def bookmark_json(version: str, *, initial_events_end: bool = False) -> dict[str, object]:
    """A bookmark line of a watch."""
    metadata: dict[str, object] = {"resourceVersion": version}
    if initial_events_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event_json("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def pod_list_json(version: str, *names: str, continue_token: str = "") -> dict[str, object]:
    """A list of pods; items carry no kind."""
    items = [pod_json(name) for name in names]
    for item in items:
        del item["kind"], item["apiVersion"]
    metadata = {"resourceVersion": version}
    if continue_token:
        metadata["continue"] = continue_token
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
