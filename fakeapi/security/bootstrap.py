"""The roles and bindings that a server with RBAC begins with.

bootstrap.json is written by tests/fakeapi/bootstrap_generator.py from the golden files of
plugin/pkg/auth/authorizer/rbac/bootstrappolicy of Kubernetes v1.36.3.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.security.rbac import GROUP
from fakeapi.types.objects import Json, labels_of, metadata_of
from fakeapi.writes import pipeline

if TYPE_CHECKING:
    from fakeapi.store.registry import Registry

_PATH: Final = Path(__file__).with_name("bootstrap.json")
_MANAGER: Final = "kube-apiserver"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS: Final = {"rbac.authorization.kubernetes.io/autoupdate": "true"}


def create_missing(state: Registry) -> None:
    """Store the default roles and bindings that are missing; changed objects stay."""
    for value in msgspec.json.decode(_PATH.read_bytes(), type=list[Json]):
        kind = state.kinds.find_kind(f"{GROUP}/v1", str(value["kind"]))
        assert kind is not None
        pipeline.ensure(state, kind, _whole(value), manager=_MANAGER)


def _whole(value: Json) -> Json:
    metadata = metadata_of(value)
    labels = {**_LABELS, **labels_of(value)}
    return {**value, "metadata": {**metadata, "labels": labels, "annotations": _ANNOTATIONS}}
