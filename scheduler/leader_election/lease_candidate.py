"""The LeaseCandidate of a scheduler: with it the API server may choose the scheduler as leader.

With the feature gate CoordinatedLeaderElection the API server writes the holder into the lease, and
the holder only renews it. A candidate renews its LeaseCandidate when the server asks (`pingTime`
is after `renewTime`) and every five minutes. Upstream's candidates are always for
`kube-system/kube-scheduler`; here they are for the lease of the configuration.
Source: client-go `tools/leaderelection/leasecandidate.go`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from typing import TYPE_CHECKING, Final, NoReturn

from msgspec.structs import replace

from scheduler.api.core import ObjectMeta
from scheduler.client import ClientError, InformerFactory
from scheduler.client.kinds import LEASE_CANDIDATES, Resource
from scheduler.client.objects import LeaseCandidate, LeaseCandidateSpec
from scheduler.client.rest import Subject
from scheduler.clock import rfc3339_micro, wait_for

if TYPE_CHECKING:
    import random

    from scheduler.client import RestClient
    from scheduler.clock import Clock
    from scheduler.config import EffectiveVersion

_log: Final = logging.getLogger(__name__)

_RENEW_SECONDS: Final = 300.0
_RETRY_SECONDS: Final = 1.0
_STRATEGY: Final = "OldestEmulationVersion"


class LeaseCandidacy:
    """Creates the LeaseCandidate of one scheduler and renews it."""

    def __init__(
        self,
        client: RestClient,
        *,
        namespace: str,
        lease_name: str,
        identity: str,
        version: EffectiveVersion,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._client: Final = client
        self._clock: Final = clock
        emulated = ".".join(map(str, version.emulation))
        self._new: Final = LeaseCandidate(
            ObjectMeta(name=identity, namespace=namespace),
            LeaseCandidateSpec(
                lease_name=lease_name,
                binary_version=version.scheduler.release.removeprefix("v"),
                emulation_version=f"{emulated}.0",
                strategy=_STRATEGY,
            ),
        )
        self._kind: Final[Resource[LeaseCandidate]] = dataclasses.replace(
            LEASE_CANDIDATES, only_namespace=namespace
        )
        self._factory: Final = InformerFactory(client, clock=clock, rng=rng)
        self._informer: Final = self._factory.informer(
            self._kind, field_selector=f"metadata.name={identity}"
        )
        self._informer.add_event_handler(on_update=self._changed)
        self._is_due: Final = asyncio.Event()
        #: True if no request is under way.
        self.is_idle = True

    def start(self, group: asyncio.TaskGroup) -> None:
        """Start to be a candidate."""
        self._factory.start(group)
        group.create_task(self._run(), name="lease candidate")

    async def _run(self) -> NoReturn:
        await self._informer.wait_for_sync()
        while True:
            self._is_due.clear()
            self.is_idle, seconds = False, _RENEW_SECONDS
            try:
                await self._write()
            except ClientError as error:
                _log.error("Ensuring lease failed", {"err": error})
                seconds = _RETRY_SECONDS
            self.is_idle = True
            with contextlib.suppress(TimeoutError):
                await wait_for(self._is_due.wait(), seconds, self._clock)

    async def _write(self) -> None:
        """Create the candidate, or renew it. Raises ClientError."""
        name, namespace = self._new.metadata.name, self._new.metadata.namespace
        stored = self._informer.lister.get(name, namespace)
        candidate, moment = stored or self._new, rfc3339_micro(self._clock.now())
        candidate = replace(candidate, spec=replace(candidate.spec, renew_time=moment))
        if stored is None:
            await self._client.create(self._kind, candidate)
            return
        await self._client.request(
            "PUT",
            self._kind.path(name, namespace=namespace),
            body=self._kind.encode(candidate),
            subject=Subject(self._kind.group_resource, name),
        )

    def _changed(self, old: LeaseCandidate, new: LeaseCandidate) -> None:
        ping_time, renew_time = new.spec.ping_time, new.spec.renew_time
        if ping_time is not None and (renew_time is None or ping_time > renew_time):
            self._is_due.set()
