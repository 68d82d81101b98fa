"""CustomResourceDefinitions."""

from __future__ import annotations

from typing import Final

from fakeapi.types.kind import Generation, Kind

KINDS: Final = (
    Kind(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition",
        namespaced=False, schema="apiextensions/v1.CustomResourceDefinition",
        short_names=("crd", "crds"), categories=("api-extensions",), subresources=("status",),
        generation=Generation.SPEC, unconditional_update=False, returns_deleted=True,
        declares_resets=False,
        stored_version="apiextensions.k8s.io/v1beta1",  # upstream keeps this name for older servers
    ),
)  # fmt: skip
