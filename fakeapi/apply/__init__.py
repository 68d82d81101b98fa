"""Server-side apply and managedFields: the owner of each field of an object, for all kinds.

    paths      path elements as text                    f:spec, k:{"name":"c"}
    sets       sets of fields, in their wire form       {"f:spec": {"f:replicas": {}}}
    types      which parts of a type merge              built_in, UNTYPED, structural
    typed      values walked by their types             to_set, compare, validate, without
    merging    merge an applied configuration into an object
    updater    owners after an update or apply
    entries    the entries of metadata.managedFields
    field_manager  FieldManager: the rules of one endpoint; the rest of the server calls it
    scaled     the owners of `replicas`, converted to a Scale and back
    endpoints  the FieldManager of each endpoint of a Kind
    ownership  the calls of the write pipeline

Nothing here waits, reads a clock or uses the store. Objects are plain JSON values and are never
changed.

Custom resources
----------------
The type of a Kind with a `structure` is made from `structure.open_api()`: list types
(x-kubernetes-list-type, x-kubernetes-list-map-keys), map types (x-kubernetes-map-type), defaults
of key fields and x-kubernetes-preserve-unknown-fields count. `kind`, `apiVersion` and `metadata`
have the types that all objects have, whatever the schema declares. A Kind without `structure` and
without `schema` is untyped: maps merge, lists are replaced whole.

All kinds of the table with the same `storage_key` are versions of one another, converted through
`to_stored` and `from_stored`. The entry of a manager whose version is no longer served is dropped.
Field managers are cached in `KindTable.derived`, so a changed schema takes effect at once. Sets
that were made under the old schema are fitted to the new one before use.
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
