"""A kubelet for all nodes: runs the pods that are bound, ends them, reports their status.

Annotations of a pod (`fakeapi.kubesched.io/` and one of `startup-seconds`, `run-seconds`,
`exit-codes`, `termination-seconds`) steer its containers; `KubeletOptions` are the defaults.
Exit codes `1,1,0` belong to the first, the second and all later runs. The annotation
`fakeapi.kubesched.io/stopped: "true"` on a node stops its kubelet, as `Kubelet.stop_node` does.

Source: pkg/kubelet (syncPod, status manager, images, kuberuntime) of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.actors import pod_runs
from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.events import EventRecorder
from fakeapi.actors.heartbeats import NodeHeartbeats
from fakeapi.actors.kubelet_annotations import AnnotationReports, KubeletAnnotations
from fakeapi.actors.pod_runs import State
from fakeapi.actors.resources import NODES, PODS
from fakeapi.types import times
from fakeapi.types.objects import Json, mappings, text

if TYPE_CHECKING:
    from fakeapi.actors.objects import Object
    from fakeapi.actors.pod_runs import PodPlan, PodRun

_ANNOTATIONS: Final = ("startup-seconds", "run-seconds", "exit-codes", "termination-seconds")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KubeletOptions:
    """Times of pods without annotations and of reports of nodes, in seconds.

    `run_seconds` None: containers run until their pod is deleted. `pods_complete_after_seconds`
    takes its place for pods that can complete (restartPolicy Never or OnFailure), unless it is
    None. `termination_seconds` None: containers use all of their pod's grace period.
    """

    startup_seconds: float = 1.0
    run_seconds: float | None = None
    pods_complete_after_seconds: float | None = None
    exit_code: int = 0
    termination_seconds: float | None = None
    lease_renew_seconds: float = 10.0
    status_report_seconds: float = 300.0


class Kubelet(Controller):
    """Runs the pods of all nodes that are not stopped."""

    name = "kubelet"

    def __init__(self, context: Context, options: KubeletOptions) -> None:
        super().__init__(context)
        self.options: Final = options
        self.heartbeats: Final = NodeHeartbeats(
            context,
            lease_renew_seconds=options.lease_renew_seconds,
            status_report_seconds=options.status_report_seconds,
        )
        self._runs: dict[str, PodRun] = {}
        self._events = _ContainerEvents(context)
        self._annotation_reports = AnnotationReports(context)
        self._deletion_seen: dict[str, float] = {}  # by uid of the pod
        self._pod_numbers: dict[str, int] = {}  # by uid; addresses are made from them
        self._pod_count = 0
        self._nodes = self.informer(NODES, self._node_changed)
        self._pods = self.informer(PODS, self._pod_changed)

    def stop_node(self, name: str) -> None:
        """Stop the kubelet of a node, as if the machine had failed."""
        self.heartbeats.stop(name)

    def start_node(self, name: str) -> None:
        """Start the kubelet of a node again."""
        self.heartbeats.start_again(name)
        self._queue_pods(name)

    async def sync(self, key: str) -> None:
        """Bring one pod to the state that it should have by now."""
        pod = self._pods.objects.get(key)
        if pod is None:
            return
        node = self._nodes.get("", pod.node)
        if node is None or self.heartbeats.is_stopped(node):
            return
        if pod.is_deleting:
            await self._end(key, pod, node)
        else:
            await self._run(key, pod, node)

    async def _run(self, key: str, pod: Object, node: Object) -> None:
        now = self.clock.now()
        run = self._run_of(pod, now)
        before = run.state, run.restarts
        remaining = pod_runs.step(run, pod, await self._plan(pod), now)
        await self._report(pod, node, run, now)
        await self._events.stepped(pod, before, run)
        if remaining is not None:
            self.queue.add_after(key, remaining)

    async def _end(self, key: str, pod: Object, node: Object) -> None:
        """Wait for the end of the grace period, report the exit codes, then delete the pod."""
        now, uid = self.clock.now(), pod.uid
        run, plan = self._run_of(pod, now), await self._plan(pod)
        end = times.epoch_seconds(text(pod.metadata.get("deletionTimestamp")))
        killed = plan.termination_seconds is None
        if uid not in self._deletion_seen:
            self._deletion_seen[uid] = now
            if run.state is State.RUNNING:
                await self._events.killing(pod)
        if plan.termination_seconds is not None:
            own = self._deletion_seen[uid] + plan.termination_seconds
            killed, end = own > end, min(end, own)
        if end > now and run.state is State.RUNNING:
            self.queue.add_after(key, end - now)
            return
        self._runs[uid] = run = pod_runs.terminated(run, now, killed=killed)
        await self._report(pod, node, run, now)
        await self.delete(PODS, pod, gracePeriodSeconds=0)

    async def _report(self, pod: Object, node: Object, run: PodRun, now: float) -> None:
        """Patch the fields of the pod's status that have changed."""
        host_ip = self.heartbeats.address_of(node)
        status = pod_runs.pod_status(
            run, pod, host_ip=host_ip, pod_ip=self._pod_ip(pod, host_ip), now=now
        )
        conditions, wanted = mappings(pod.status.get("conditions")), mappings(status["conditions"])
        if all(condition in conditions for condition in wanted):
            del status["conditions"]
        else:
            status["conditions"] = _conditions_patch(conditions, wanted)
        await self.patch_status(PODS, pod, status)

    def _run_of(self, pod: Object, now: float) -> PodRun:
        run = self._runs.get(pod.uid)
        if run is None:
            is_new = not pod.status.get("startTime")
            run = pod_runs.begun(now) if is_new else pod_runs.recovered(pod, now)
            self._runs[pod.uid] = run
        return run

    async def _plan(self, pod: Object) -> PodPlan:
        """Return what the pod's containers do; report invalid annotations."""
        options, annotations = self.options, KubeletAnnotations(pod, _ANNOTATIONS)
        startup = annotations.seconds("startup-seconds", options.startup_seconds)
        run = options.run_seconds
        if pod.spec.get("restartPolicy") in ("Never", "OnFailure"):
            completion = options.pods_complete_after_seconds
            run = run if completion is None else completion
        plan = pod_runs.PodPlan(
            startup_seconds=startup or 0.0,
            run_seconds=annotations.seconds("run-seconds", run),
            exit_codes=annotations.exit_codes("exit-codes", (options.exit_code,)),
            termination_seconds=annotations.seconds(
                "termination-seconds", options.termination_seconds
            ),
        )
        await self._annotation_reports.report(PODS, pod, annotations, pod.node)
        return plan

    def _pod_ip(self, pod: Object, host_ip: str) -> str:
        present = text(pod.status.get("podIP"))
        if present:
            return present
        if pod.spec.get("hostNetwork"):
            return host_ip
        uid = pod.uid
        if uid not in self._pod_numbers:
            self._pod_count += 1
            self._pod_numbers[uid] = self._pod_count
        number = self._pod_numbers[uid]
        return f"10.{number // 65536 % 256}.{number // 256 % 256}.{number % 256}"

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and new.node:
            self.queue.add(new.key)
        elif new is None and old is not None:
            uid = old.uid
            self._runs.pop(uid, None)
            self._deletion_seen.pop(uid, None)
            self._pod_numbers.pop(uid, None)
            self._annotation_reports.forget(uid)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        did_run = old is not None and not self.heartbeats.is_stopped(old)
        if new is not None and not did_run and not self.heartbeats.is_stopped(new):
            self._queue_pods(new.name)

    def _queue_pods(self, node: str) -> None:
        for key, pod in self._pods.objects.items():
            if pod.node == node:
                self.queue.add(key)


class _ContainerEvents:
    """Writes the kubelet's events about the containers of pods."""

    def __init__(self, context: Context) -> None:
        self._recorder = EventRecorder(context, "kubelet")

    async def stepped(self, pod: Object, before: tuple[State, int], run: PodRun) -> None:
        """Write the events of a step from an earlier state and number of restarts."""
        state, restarts = before
        if (run.state, run.restarts) == before:
            return
        has_started = (
            run.state is State.RUNNING or run.restarts > restarts or state is State.WAITING
        )
        if has_started and run.started_at:
            if state is State.WAITING:
                await self._started(pod, "initContainers")
            await self._started(pod, "containers")
        if run.state is State.BACKOFF and run.backoff_seconds:
            pod_name = pod_runs.full_name(pod)
            for name in _container_names(pod):
                message = f"Back-off restarting failed container {name} in pod {pod_name}"
                await self._record(pod, "containers", name, "BackOff", message, kind="Warning")

    async def killing(self, pod: Object) -> None:
        """Write that the pod's containers are being stopped."""
        for name in _container_names(pod):
            await self._record(pod, "containers", name, "Killing", f"Stopping container {name}")

    async def _started(self, pod: Object, field: str) -> None:
        for container in mappings(pod.spec.get(field)):
            image, name = container.get("image"), text(container.get("name"))
            present = (
                f'Container image "{image}" already present on machine '
                "and can be accessed by the pod"
            )
            await self._record(pod, field, name, "Pulled", present)
            await self._record(pod, field, name, "Created", "Container created")
            await self._record(pod, field, name, "Started", "Container started")

    async def _record(
        self, pod: Object, field: str, name: str, reason: str, message: str, *, kind: str = "Normal"
    ) -> None:
        path = f"spec.{field}{{{name}}}"
        await self._recorder.record(
            PODS, pod, reason, message, kind=kind, host=pod.node, field_path=path
        )


def _container_names(pod: Object) -> list[str]:
    return [text(one.get("name")) for one in mappings(pod.spec.get("containers"))]


def _conditions_patch(old: list[Json], new: list[Json]) -> list[Json]:
    """Return conditions for a strategic patch, with null for fields to remove."""
    before = {one.get("type"): one for one in old}
    return [
        {**dict.fromkeys(before.get(one.get("type"), {}).keys() - one.keys()), **one} for one in new
    ]
