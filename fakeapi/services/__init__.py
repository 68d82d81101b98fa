"""Services: their addresses within the cluster, their ports on nodes, and what goes with these.

    on_create, on_update    before validation: what was left out is filled in or handed out
    drop_fields_of_type     what a change of type leaves without meaning goes
    remove_endpoints        after a deletion: nobody of the same name is to have them

Nothing is kept about what is handed out but the Services in the store (books.py); what is given out
becomes lasting with the write, and is free again as soon as the store no longer has it.

Source: pkg/registry/core/service of Kubernetes v1.36.3, for one range of IPv4 addresses.
"""

from __future__ import annotations

from fakeapi.services.allocation import on_create, on_update, remove_endpoints
from fakeapi.services.books import ServiceBooks
from fakeapi.services.fields import drop_fields_of_type
from fakeapi.services.warnings import warnings_of, warnings_of_status
from fakeapi.types.service_fields import SERVICES

__all__ = [
    "SERVICES",
    "ServiceBooks",
    "drop_fields_of_type",
    "on_create",
    "on_update",
    "remove_endpoints",
    "warnings_of",
    "warnings_of_status",
]
