"""The words in which puzzles and variations are written: entries for objects, and steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..api import Json

    #: Fields of an object or a step.
    Fields: TypeAlias = Mapping[str, object]

WAITER: Final = "waiter"
COPY: Final = "copy"
HOST: Final = "kubernetes.io/hostname"
#: Longer than the backoff of a lane's scheduler.
PAUSE: Final[Json] = {"advance": "3s"}
SETTLE: Final[Json] = {"wait_until_settled": None}
DEVICES: Final = "resource.k8s.io/v1"


def pod(name: str, **fields: object) -> Json:
    """Return an entry for a pod."""
    return {"pod": {"name": name, **fields}}


def node(name: str, **fields: object) -> Json:
    """Return an entry for a node."""
    return {"node": {"name": name, **fields}}


def obj(api_version: str, kind: str, name: str, *, namespace: str = "", **fields: object) -> Json:
    """Return an entry for an object of another kind."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"object": {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}}


def claim(name: str, *requests: Fields, **fields: object) -> Json:
    """Return an entry for a claim of devices; `fields` are further parts of them."""
    spec = {"devices": {"requests": [*requests], **fields}}
    return obj(DEVICES, "ResourceClaim", name, namespace="default", spec=spec)


def uses(*claims: str) -> Json:
    """Return the field of a pod that uses claims of devices."""
    names = [{"name": f"d{n}", "resourceClaimName": name} for n, name in enumerate(claims)]
    return {"spec": {"resourceClaims": names}} if claims else {}


def create(*entries: Fields) -> Json:
    """Return a step that creates objects."""
    return {"create": [*entries]}


def subject_of(fields: Fields) -> Json:
    """Return the subject of a step about a pod."""
    namespace = fields.get("namespace")
    return {"pod": f"{namespace}/{fields['name']}" if namespace else fields["name"]}
