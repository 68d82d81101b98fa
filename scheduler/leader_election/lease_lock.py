"""A lease as a lock: it is read, created and replaced as a whole.

All fields of the lease except its spec (labels, owners, finalizers, managed fields) are kept as the
server sent them, and sent back. The resource version among them makes every update conditional: of
two updates of the same version one gets a Conflict.

Source: client-go `tools/leaderelection/resourcelock/leaselock.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api.core import ObjectMeta
from scheduler.client.decoding import ObjectDecoder
from scheduler.client.kinds import LEASES
from scheduler.client.objects import Lease, LeaseSpec
from scheduler.client.rest import Subject

if TYPE_CHECKING:
    from scheduler.api.core import ObjectReference
    from scheduler.client.rest import RestClient

#: A lease by its top-level fields, which are not decoded.
_Fields = dict[str, msgspec.Raw]


class LeaseLock:
    """One lease on the API server. Every method raises ClientError."""

    def __init__(self, client: RestClient, *, namespace: str, name: str) -> None:
        self._client: Final = client
        self._namespace: Final = namespace
        self._name: Final = name
        self._path: Final = LEASES.path(name, namespace=namespace)
        self._subject: Final = Subject(LEASES.group_resource, name)
        self._decoder: Final = ObjectDecoder(LEASES)
        self._fields: _Fields = {}
        self._lease: Lease | None = None

    def __str__(self) -> str:
        return f"{self._namespace}/{self._name}"

    @property
    def reference(self) -> ObjectReference:
        """A reference to the last known state of the lease, after `get` or `create`."""
        assert self._lease is not None, "lease not initialized, call get or create first"
        return LEASES.reference(self._lease)

    async def get(self) -> LeaseSpec:
        """Read the lease. Raises NotFound if there is none."""
        return self._keep(await self._client.request("GET", self._path, subject=self._subject))

    async def create(self, record: LeaseSpec) -> None:
        """Create the lease. Raises AlreadyExists."""
        lease = Lease(ObjectMeta(name=self._name, namespace=self._namespace), record)
        self._keep(await self._client.create(LEASES, lease))

    async def update(self, record: LeaseSpec) -> None:
        """Replace the last known state of the lease. Raises Conflict if it has changed since."""
        assert self._fields, "lease not initialized, call get or create first"
        body = msgspec.json.encode({**self._fields, "spec": record})
        self._keep(await self._client.request("PUT", self._path, body=body, subject=self._subject))

    def _keep(self, body: bytes) -> LeaseSpec:
        lease = self._decoder.object(body, url=self._path)
        # The decoder above has checked that the body is an object with fields.
        self._fields, self._lease = msgspec.json.decode(body, type=_Fields), lease
        return lease.spec
