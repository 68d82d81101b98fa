"""ServiceAccounts, roles and role bindings."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import cluster
from fakeapi.types.kind import Kind

_GROUP: Final = "rbac.authorization.k8s.io"

KINDS: Final = (
    Kind(
        "", "v1", "serviceaccounts", "ServiceAccount", schema="core/v1.ServiceAccount",
        short_names=("sa",), subresources=("token",), returns_deleted=True,
        printer=cluster.PRINTERS["", "serviceaccounts"],
    ),
    *(
        Kind(
            _GROUP, "v1", f"{kind.lower()}s", kind, namespaced=not kind.startswith("Cluster"),
            schema=f"rbac/v1.{kind}", create_on_update=True,
            printer=cluster.PRINTERS.get((_GROUP, f"{kind.lower()}s")),
        )
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    ),
)  # fmt: skip
