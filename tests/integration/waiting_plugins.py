"""Our scheduler with slow plugins, for the conformance runner.

--in-process tests.integration.waiting_plugins:run_with_patient_plugins
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar

from scheduler import CycleState, Plugin, PodInfo, Status
from scheduler.clock import Clock
from scheduler.framework import wait
from scheduler.testing.in_process import RunningScheduler, run_in_process

PERMIT_SECONDS = 15 * 60.0
PRE_BIND_SECONDS = 2 * 3600.0
BACKGROUND_SECONDS = 30.0


class Holds(Plugin):
    """Holds pods with the label `held` for as long as Permit may, and never allows them."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return wait(PERMIT_SECONDS) if "held" in pod.labels else None


class Prepares(Plugin):
    """Prepares the node for pods with the label `prepared` for two hours."""

    clock: ClassVar[Clock]

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if "prepared" in pod.labels:
            await self.clock.sleep(PRE_BIND_SECONDS)
        return None


class Works(Plugin):
    """Runs a background task for half a minute after each reservation."""

    clock: ClassVar[Clock]
    finished: ClassVar[list[str]] = []

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self.handle.spawn(self._work(pod.name), "work")
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Do nothing."""

    async def _work(self, name: str) -> None:
        await self.clock.sleep(BACKGROUND_SECONDS)
        self.finished.append(name)


def run_with_patient_plugins(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AbstractAsyncContextManager[RunningScheduler]:
    """Run our scheduler with all of them."""
    Prepares.clock = Works.clock = clock
    Works.finished.clear()
    return run_in_process(
        kubeconfig=kubeconfig,
        clock=clock,
        config=config,
        seed=seed,
        plugins=[Holds, Prepares, Works],
    )
