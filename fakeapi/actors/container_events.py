"""What the kubelet tells of a pod's containers. Source: pkg/kubelet/{images,kuberuntime}."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.actors.events import EventRecorder
from fakeapi.actors.objects import node_of, spec_of
from fakeapi.actors.resources import PODS
from fakeapi.types.objects import Json, mappings, metadata_of, name_of, namespace_of, text

if TYPE_CHECKING:
    from fakeapi.actors.controller import Context
    from fakeapi.actors.pod_runs import PodRun


class ContainerEvents:
    """Writes events about the containers of pods, as the kubelet of their node."""

    def __init__(self, context: Context) -> None:
        self._recorder = EventRecorder(context, "kubelet")

    async def stepped(self, pod: Json, before: tuple[str, int], run: PodRun) -> None:
        """Tell what has happened since the run was in that state, with so many restarts."""
        if run.restarts == before[1] and run.state == before[0]:
            return
        began = run.state == "running" or run.restarts > before[1] or before[0] == "waiting"
        if began and run.started_at:
            if before[0] == "waiting":
                await self._begun(pod, "initContainers")
            await self._begun(pod, "containers")
        if run.state == "backoff" and run.backoff_seconds:
            who = f"{name_of(pod)}_{namespace_of(pod)}({text(metadata_of(pod).get('uid'))})"
            for name in _names(pod, "containers"):
                message = f"Back-off restarting failed container {name} in pod {who}"
                await self._tell(pod, "containers", name, "BackOff", message, kind="Warning")

    async def killed(self, pod: Json) -> None:
        """Tell that the pod's containers are being stopped."""
        for name in _names(pod, "containers"):
            await self._tell(pod, "containers", name, "Killing", f"Stopping container {name}")

    async def _begun(self, pod: Json, field: str) -> None:
        for container in mappings(spec_of(pod).get(field)):
            image, name = container.get("image"), text(container.get("name"))
            there = (
                f'Container image "{image}" already present on machine '
                "and can be accessed by the pod"
            )
            await self._tell(pod, field, name, "Pulled", there)
            await self._tell(pod, field, name, "Created", "Container created")
            await self._tell(pod, field, name, "Started", "Container started")

    async def _tell(
        self, pod: Json, field: str, name: str, reason: str, message: str, *, kind: str = "Normal"
    ) -> None:
        await self._recorder.record(
            PODS,
            pod,
            reason,
            message,
            kind=kind,
            host=node_of(pod),
            field_path=f"spec.{field}{{{name}}}",
        )


def _names(pod: Json, field: str) -> list[str]:
    return [text(one.get("name")) for one in mappings(spec_of(pod).get(field))]
