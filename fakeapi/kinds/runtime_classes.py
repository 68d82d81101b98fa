"""RuntimeClasses."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, Column
from fakeapi.types.kind import Kind

KINDS: Final = (
    Kind(
        "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False,
        schema="node/v1.RuntimeClass", create_on_update=True, unconditional_update=False,
        columns=(NAME, Column("Handler", ".handler"), AGE),
    ),
)  # fmt: skip
