"""Reviews: questions about tokens and permissions, which are answered and never stored."""

from __future__ import annotations

from typing import Final

from fakeapi.types.kind import Kind

KINDS: Final = tuple(
    Kind(
        f"{group}.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=kind.startswith("Local"),
        schema=f"{group}/v1.{kind}", verbs=("create",),
    )
    for group, kind in (
        ("authentication", "TokenReview"),
        ("authentication", "SelfSubjectReview"),
        ("authorization", "LocalSubjectAccessReview"),
        ("authorization", "SelfSubjectAccessReview"),
        ("authorization", "SelfSubjectRulesReview"),
        ("authorization", "SubjectAccessReview"),
    )
)  # fmt: skip
