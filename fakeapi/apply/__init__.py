"""Server-side apply and managedFields: who owns which field of an object, for every kind.

    paths      path elements as text                    f:spec, k:{"name":"c"}
    sets       sets of fields, in their wire form       {"f:spec": {"f:replicas": {}}}
    types      which parts of a type merge              built_in, UNTYPED, structural
    typed      values walked by their types             to_set, compare, validate, without
    merging    a configuration merged into an object
    updater    owners after an update or apply
    entries    the entries of metadata.managedFields
    field_manager  FieldManager: the rules of one endpoint, what the rest of the server calls
    scaled     the owners of a number of replicas, on its way to a Scale and back
    endpoints  the FieldManager of each endpoint of a Kind

Nothing here waits, reads a clock or knows the store; objects are plain JSON values and are never
changed.

How a custom resource plugs in
------------------------------
Nothing is to be done for a Kind with a `structure`: its type is made from `structure.open_api()`,
of which the list types (x-kubernetes-list-type, x-kubernetes-list-map-keys), map types
(x-kubernetes-map-type), defaults of key fields and x-kubernetes-preserve-unknown-fields matter;
kind, apiVersion and metadata are those of every object whatever the schema says of them. A Kind
without a `structure` and without a `schema` is untyped: maps merge, lists are replaced whole.

All kinds of the table with the same `storage_key` are versions of one another, converted through
`to_stored` and `from_stored`; a manager whose version is not in the table any more is forgotten.
Field managers are remembered in `KindTable.derived`, so a changed schema takes effect at once, and
sets written under the old one are fitted to it before they are used.
"""

from __future__ import annotations

from fakeapi.apply.endpoints import manager_for
from fakeapi.apply.entries import is_ours, manager_of
from fakeapi.apply.field_manager import Applied, ApplyConflict, FieldManager
from fakeapi.apply.scaled import ScaleEntries

__all__ = [
    "Applied",
    "ApplyConflict",
    "FieldManager",
    "ScaleEntries",
    "is_ours",
    "manager_for",
    "manager_of",
]
