"""RuntimeClasses."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import cluster
from fakeapi.types.kind import Kind

KINDS: Final = (
    Kind(
        "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False,
        schema="node/v1.RuntimeClass", create_on_update=True, unconditional_update=False,
        printer=cluster.PRINTERS["node.k8s.io", "runtimeclasses"],
    ),
)  # fmt: skip
