"""Kinds: a `Kind` has all differences between resources, a `KindTable` the kinds of a server.

The generic verbs read a `Kind` and do the rest. Rules that are code are functions in its
`KindRules`. The built-in kinds are in `fakeapi/kinds/`; `KindTable.add` adds others at run time.

Facts are from pkg/registry/*/strategy.go and storage.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from fakeapi.types import names
from fakeapi.types.objects import Json, text, value_in

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    from fakeapi.types.columns import Column
    from fakeapi.types.errors import FieldError

T = TypeVar("T")

ALL_VERBS: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


class Generation(enum.Enum):
    """When metadata.generation moves."""

    NEVER = "never"
    ON_CREATE = "set to 1 on create and left alone"
    SPEC = "1 on create, plus 1 whenever the spec changes"
    SPEC_OR_ANNOTATIONS = "as SPEC, and when annotations change"
    SPEC_LATER = "absent on create, plus 1 whenever the spec changes"
    CONTENT = "1 on create, plus 1 whenever anything but metadata changes"
    CONTENT_OR_LABELS = "as CONTENT, and when labels change"


#: The fields of the metadata that clients write.
CLIENT_METADATA: Final = ("annotations", "finalizers", "labels", "ownerReferences")


class GarbagePolicy(enum.Enum):
    """The effect on dependents of a delete without options."""

    BACKGROUND = "background"
    ORPHAN = "orphan"
    UNSUPPORTED = "unsupported"


#: Group and plural name.
ResourceKey: TypeAlias = "tuple[str, str]"

CLAIMS: Final[ResourceKey] = ("", "persistentvolumeclaims")
NAMESPACES: Final[ResourceKey] = ("", "namespaces")
NODES: Final[ResourceKey] = ("", "nodes")
PODS: Final[ResourceKey] = ("", "pods")
POD_GROUPS: Final[ResourceKey] = ("scheduling.k8s.io", "podgroups")
QUOTAS: Final[ResourceKey] = ("", "resourcequotas")

#: Subresources of pods that answer in streams, not in objects.
STREAMS: Final = frozenset({"attach", "exec", "log", "portforward"})


@dataclasses.dataclass(frozen=True, slots=True)
class ScalePaths:
    """Paths to the numbers and the selector of the scale subresource in an object."""

    replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()


#: The paths of kinds that have replicas.
REPLICAS: Final = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))


class Structure(Protocol):
    """The type of a custom resource, made at run time; other types are in schema.json."""

    def complete(self, value: Json, dropped: list[str] | None = None) -> Json:
        """Return the stored form: a new object with defaults and without unknown fields.

        The paths of unknown fields are added to `dropped`. Raises DecodeError.
        """

    def unknown_fields(self, value: Json) -> list[str]:
        """Return the paths of the fields that `complete` drops."""

    def validate(
        self, obj: Json, old: Json | None = None, *, subresource: str = ""
    ) -> list[FieldError]:
        """Return the errors of the object; an update may keep the errors of the old object."""

    def warnings(self, obj: Json, old: Json | None = None) -> list[str]:
        """Return the warnings for the writer of a valid object."""

    def open_api(self) -> Json:
        """Return the type as an OpenAPI v3 schema for clients."""


def _nothing(*_: object) -> None:
    pass


def _none(*_: object) -> list[Any]:
    return []


def _no_problem(*_: object) -> str:
    return ""


def _is_free(*_: object) -> bool:
    return False


class NumberRange(NamedTuple):
    """Numbers to give, the lowest first, but the lowest `last` of them last."""

    numbers: range
    last: int

    def at(self, position: int) -> int:
        """Return the number at a position in this order."""
        return self.numbers[(position + self.last) % len(self.numbers)]

    def position(self, number: int) -> int:
        """Return the position of a number of the range."""
        return (number - self.numbers.start - self.last) % len(self.numbers)


class Held(Protocol):
    """The numbers that the stored objects of a kind hold."""

    def holders(self, number: int) -> int:
        """Return how many objects hold a number."""

    def lowest_free(self, wanted: NumberRange, but: Container[int]) -> int | None:
        """Return the first number of a range that no object holds, and is not in `but`."""


class Allocate(Protocol):
    """Sets numbers that are unique among the objects of a kind, such as addresses."""

    def __call__(self, new: Json, old: Json | None, held: Held, *, keeps: bool) -> None:
        """Complete a new object, or an update of `old`.

        With `keeps` the numbers that the object has are from another server and stay. Raises
        ApiError.
        """


class Allocation(NamedTuple):
    """The rule by which objects of a kind get numbers, and the numbers of a stored object."""

    allocate: Allocate
    numbers_of: Callable[[Json], Iterable[int]]


class NeededPermission(NamedTuple):
    """A permission that an update needs besides its own, on a subresource without an endpoint.

    Each prefix of `verb_prefixes` is put before the verb of the request; one of them is enough.
    """

    #: The path of the error, and the changed fields as the error names them.
    path: str
    fields: str
    subresource: str
    verb_prefixes: tuple[str, ...] = ("",)
    #: The name of the resource; any namespace and any name without one.
    name: str = ""
    #: The prefix for service accounts whose tokens are bound to `node`; goes before the others.
    node_prefix: str = ""
    node: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRules:
    """Rules of one subresource through which a kind is updated.

    The generic part of an update through `status` keeps all but the status and the metadata.
    """

    #: Called with the new object, the stored one and the time; changes the new object.
    prepare: Callable[[Json, Json, str], None] = _nothing
    #: True if `prepare` also runs before managedFields; fields that it drops have no manager.
    drops_before_ownership: bool = False
    #: Returns the errors of the new object, given the stored one.
    validate: Callable[[Json, Json], list[FieldError]] = _none
    #: Returns the permissions that the change from the stored object to the new one needs.
    permissions: Callable[[Json, Json], list[NeededPermission]] = _none


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KindRules:
    """Functions of one kind that the write pipeline calls, in the order of a write.

    Objects are in their stored form. The defaults add no rule.
    """

    #: Sets the fields that the client left out; applied twice it does no more than once.
    set_defaults: Callable[[Json], None] = _nothing
    #: True if a new object is stored without some of its defaults, which it is read with: the first
    #: update stores them, so it is never a no-op.
    stores_defaults_later: bool = False
    #: The paths of fields whose feature is off: a write may not add them, only keep them.
    disabled_fields: tuple[tuple[str, ...], ...] = ()
    allocation: Allocation | None = None
    #: Sets the fields that belong to the server in a new object, at a time.
    prepare: Callable[[Json, str], None] = _nothing
    #: The same for an update through the kind's own endpoint, given the stored object.
    prepare_update: Callable[[Json, Json, str], None] = _nothing
    #: The grammar of names: returns the errors of a name.
    check_name: Callable[[str], tuple[str, ...]] = names.dns_subdomain
    #: True if finalizers need not be qualified names.
    has_free_finalizers: bool = False
    #: True if an error in the metadata of an update is reported once; most kinds report it twice.
    checks_metadata_once: bool = False
    #: Returns the errors of a new object and of an update.
    validate: Callable[[Json], list[FieldError]] = _none
    #: Returns more errors of a new object.
    validate_create: Callable[[Json], list[FieldError]] = _none
    #: Returns more errors of an update, given the stored object.
    validate_update: Callable[[Json, Json], list[FieldError]] = _none
    #: Returns more errors of a write through any endpoint, given the stored object of an update
    #: and the labels of the namespace.
    validate_in_namespace: Callable[[Json, Json | None, Json], list[FieldError]] | None = None
    #: Returns warnings about a valid object, given the stored object of an update.
    warnings: Callable[[Json, Json | None], list[str]] = _none
    #: Rules of updates through subresources.
    subresources: Mapping[str, UpdateRules] = dataclasses.field(default_factory=dict)
    #: Returns the reason why the object of a name may not be deleted, empty if it may.
    deletion_problem: Callable[[str], str] = _no_problem
    #: Returns the object to store in place of its deletion, None to delete it as usual.
    #: Called with the object, its finalizers as the deletion asks for them, and the time.
    marked_for_deletion: Callable[[Json, list[str], str], Json | None] = _nothing
    #: Returns True while something besides finalizers keeps a deleted object.
    is_held: Callable[[Json], bool] = _is_free


_NO_RULES: Final = KindRules()
NO_UPDATE_RULES: Final = UpdateRules()


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One served resource.

    `fields` maps the field labels of selectors to functions that read a stored object;
    None means the default pair metadata.name and metadata.namespace. `stored_as` names the resource
    whose collection holds the objects (events have two views of one collection), `to_stored` and
    `from_stored` convert between this view and that form. `schema` is the type in schema.json;
    without `schema` the object is what `structure` makes of it, or is stored as it comes.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    schema: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    generation: Generation = Generation.NEVER
    fields: Mapping[str, Callable[[Json], str]] | None = None
    create_on_update: bool = False
    unconditional_update: bool = True
    keeps_status_on_create: bool = False
    #: Fields of the metadata that an update of the status keeps as they are.
    status_keeps: tuple[str, ...] = ()
    deletes_gracefully: bool = False
    returns_deleted: bool = False
    garbage_policy: GarbagePolicy = GarbagePolicy.BACKGROUND
    #: False if upstream declares no reset fields for managedFields of its endpoints.
    declares_resets: bool = True
    #: The resource whose object of the same name is deleted with an object.
    deleted_with: ResourceKey | None = None
    stored_as: ResourceKey | None = None
    to_stored: Callable[[Json], Json] | None = None
    from_stored: Callable[[Json], Json] | None = None
    scale: ScalePaths | None = None
    structure: Structure | None = None
    rules: KindRules = _NO_RULES
    #: The columns of tables; without any, name and time of creation.
    columns: tuple[Column, ...] = ()
    #: Returns the conditions of an object's row: for example that the object is completed.
    row_conditions: Callable[[Json], list[Json]] | None = None
    #: The header that answers carry while the version is deprecated.
    deprecation_warning: str = ""
    #: True while its definition is being deleted: no object is created.
    is_ending: bool = False
    #: The storage version in discovery (storageVersionHash), by default the own apiVersion.
    stored_version: str = ""

    #: Identifies the resource across its versions.
    resource_key: ResourceKey = dataclasses.field(init=False)
    #: The resource whose collection stores the objects.
    storage_key: ResourceKey = dataclasses.field(init=False)
    #: The apiVersion of its objects.
    api_version: str = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Compute the fields that every request reads."""
        key = (self.group, self.plural)
        object.__setattr__(self, "resource_key", key)
        object.__setattr__(self, "storage_key", self.stored_as or key)
        api_version = f"{self.group}/{self.version}" if self.group else self.version
        object.__setattr__(self, "api_version", api_version)
        if not self.schema:
            object.__setattr__(self, "status_keeps", CLIENT_METADATA)

    @property
    def singular_name(self) -> str:
        return self.singular or self.kind.lower()

    @property
    def list_kind_name(self) -> str:
        return self.list_kind or f"{self.kind}List"

    @property
    def has_status(self) -> bool:
        """True if status is a subresource."""
        return "status" in self.subresources


class KindTable:
    """The kinds that a server serves, found by group, version and plural name."""

    def __init__(self, kinds: tuple[Kind, ...] = ()) -> None:
        self._derived: dict[str, object] = {}
        #: Called with each kind that is removed or replaced.
        self.listeners: dict[object, Callable[[Kind], None]] = {}
        self._versions: dict[tuple[str, str], dict[str, Kind]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Add a kind, or replace the kind with the same group, version and plural name."""
        served = self._versions.setdefault((kind.group, kind.version), {})
        before = served.get(kind.plural)
        served[kind.plural] = kind
        self._derived.clear()
        if before is not None and before is not kind:
            self._call_listeners(before)

    def remove(self, kind: Kind) -> None:
        """Remove a kind; a no-op if it is not served."""
        served = self._versions.get((kind.group, kind.version), {})
        before = served.pop(kind.plural, None)
        if before is None:
            return
        if not served:
            del self._versions[kind.group, kind.version]
        self._derived.clear()
        self._call_listeners(before)

    def derived(self, key: str, make: Callable[[], T]) -> T:
        """Return the value of a key, which is made anew whenever the table has changed."""
        if key not in self._derived:
            self._derived[key] = make()
        # The value of this key, so of its type.
        return cast("T", self._derived[key])

    def _call_listeners(self, kind: Kind) -> None:
        for listener in self.listeners.values():
            listener(kind)

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Return a kind by the parts of its URL, None if it is not served."""
        return self._versions.get((group, version), {}).get(plural)

    def find_kind(self, api_version: str, kind: str) -> Kind | None:
        """Return a kind by the apiVersion and kind of its objects, None if it is not served."""
        group, _, version = api_version.rpartition("/")
        for served in self._versions.get((group, version), {}).values():
            if served.kind == kind:
                return served
        return None

    def in_version(self, group: str, version: str) -> list[Kind]:
        """Return the kinds of one API version, empty if it is not served."""
        return list(self._versions.get((group, version), {}).values())

    def serves(self, group: str, version: str) -> bool:
        """True if the API version is served."""
        return (group, version) in self._versions

    def versions(self) -> list[tuple[str, str]]:
        """Return the groups and versions that are served, in the order of the table."""
        return list(self._versions)

    def __iter__(self) -> Iterator[Kind]:
        return iter([kind for kinds in self._versions.values() for kind in kinds.values()])


def value_at(*path: str) -> Callable[[Json], str]:
    """Read a string at a path; anything missing is the empty string."""
    return lambda obj: text(value_in(obj, path))


NAME_FIELDS: Final = {"metadata.name": value_at("metadata", "name")}
NAMESPACED_FIELDS: Final = {**NAME_FIELDS, "metadata.namespace": value_at("metadata", "namespace")}
#: The fields for selectors of kinds that have no `fields`.
DEFAULT_FIELDS: Final[Mapping[str, Callable[[Json], str]]] = NAMESPACED_FIELDS


def flag_at(*path: str) -> Callable[[Json], str]:
    """Read a boolean at a path as text; a missing boolean is `false`."""
    return lambda obj: "true" if value_in(obj, path) is True else "false"


def number_at(*path: str) -> Callable[[Json], str]:
    """Read a number at a path as text; a missing number is `0`."""
    return lambda obj: str(value_in(obj, path) or 0)
