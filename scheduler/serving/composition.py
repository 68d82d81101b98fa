"""Joins the port to a scheduler, for those who run one: the command and `scheduler.testing`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from scheduler.serving.endpoints import Endpoints, Sources
from scheduler.serving.listener import create_listener
from scheduler.serving.secure import serve_securely
from scheduler.serving.server import SchedulerServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scheduler.assembly.app import SchedulerApp
    from scheduler.clock import Clock
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.serving.options import ServingOptions


@contextlib.asynccontextmanager
async def serve_app_securely(
    options: ServingOptions,
    config: KubeSchedulerConfiguration,
    app: SchedulerApp,
    *,
    clock: Clock,
    is_shutting_down: Callable[[], bool],
) -> AsyncIterator[SchedulerServer]:
    """Serve what a scheduler says of itself until the block is left. Raises ServingError."""
    endpoints = _endpoints(config, app, clock, is_shutting_down)
    async with serve_securely(options, endpoints, clock=clock) as server:
        yield server


def serve_app_for_tests(
    config: KubeSchedulerConfiguration, app: SchedulerApp, *, clock: Clock
) -> SchedulerServer:
    """Plain HTTP on a free port of the loopback interface, open to all, for as long as entered."""
    endpoints = _endpoints(config, app, clock, lambda: False)
    return SchedulerServer(endpoints, create_listener("127.0.0.1", None))


def _endpoints(
    config: KubeSchedulerConfiguration,
    app: SchedulerApp,
    clock: Clock,
    is_shutting_down: Callable[[], bool],
) -> Endpoints:
    sources = Sources(
        config=config,
        has_synced=lambda: app.has_synced,
        is_shutting_down=is_shutting_down,
        leader_election_problem=app.leader_election_problem,
        metrics_text=app.metrics_text,
        pod_resources_text=app.pod_resources_text,
        story=app.story,
        known_stories=app.known_stories,
    )
    return Endpoints(sources, started_at=clock.now())
