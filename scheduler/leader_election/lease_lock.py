"""A lease as a lock: read, made and replaced, always as a whole.

What the server says of the lease beside its spec (labels, owners, finalizers, managed fields) is
kept as it came and sent back: whoever wrote it there keeps it. The resource version among it makes
every replacement conditional: of two that replace the same lease one gets a Conflict.

Source: client-go `tools/leaderelection/resourcelock/leaselock.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api.core import ObjectMeta
from scheduler.client.decoding import ObjectDecoder
from scheduler.client.resources import LEASES
from scheduler.client.rest import Subject
from scheduler.client.wire import Lease, LeaseSpec

if TYPE_CHECKING:
    from scheduler.api.core import ObjectReference
    from scheduler.client.rest import RestClient

#: A lease by its top-level fields, none of them taken apart.
_Fields = dict[str, msgspec.Raw]


class LeaseLock:
    """One lease on the API server. Every method raises ClientError if it comes to nothing."""

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
        """The lease in its last known state, for events about it. Only once there is one."""
        assert self._lease is not None, "lease not initialized, call get or create first"
        return LEASES.reference(self._lease)

    async def get(self) -> LeaseSpec:
        """Read the lease. Raises NotFound if there is none."""
        return self._keep(await self._client.request("GET", self._path, subject=self._subject))

    async def create(self, record: LeaseSpec) -> None:
        """Make the lease. Raises AlreadyExists if another one was faster."""
        lease = Lease(ObjectMeta(name=self._name, namespace=self._namespace), record)
        collection = LEASES.collection_path(self._namespace)
        body = LEASES.encode(lease)
        self._keep(await self._client.request("POST", collection, body=body, subject=self._subject))

    async def update(self, record: LeaseSpec) -> None:
        """Replace the lease as it was last known. Raises Conflict if it has changed since."""
        assert self._fields, "lease not initialized, call get or create first"
        body = msgspec.json.encode({**self._fields, "spec": record})
        self._keep(await self._client.request("PUT", self._path, body=body, subject=self._subject))

    def _keep(self, body: bytes) -> LeaseSpec:
        lease = self._decoder.object(body, url=self._path)
        # Once this is an object of that kind, it has fields.
        self._fields, self._lease = msgspec.json.decode(body, type=_Fields), lease
        return lease.spec
