"""RuntimeClasses.

Source: pkg/apis/node/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types import names
from fakeapi.types.columns import AGE, NAME, Column
from fakeapi.types.kind import Kind, KindRules
from fakeapi.types.objects import Json, mapping, mappings, text
from fakeapi.validation.checks import fixed, required_name_errors
from fakeapi.validation.metadata import validate_labels
from fakeapi.validation.resources import validate_overhead
from fakeapi.validation.scheduling import validate_tolerations

if TYPE_CHECKING:
    from fakeapi.types.errors import FieldError


def _validate(runtime_class: Json) -> list[FieldError]:
    handler = text(runtime_class.get("handler"))
    errors = required_name_errors(handler, "handler", names.dns_label)
    overhead = mapping(runtime_class.get("overhead")).get("podFixed")
    errors += validate_overhead(overhead, "overhead.podFixed")
    scheduling = mapping(runtime_class.get("scheduling"))
    errors += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    tolerations = mappings(scheduling.get("tolerations"))
    return errors + validate_tolerations(tolerations, "scheduling.tolerations")


KINDS: Final = (
    Kind(
        "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False,
        schema="node/v1.RuntimeClass", create_on_update=True, unconditional_update=False,
        columns=(NAME, Column("Handler", ".handler"), AGE),
        rules=KindRules(validate=_validate, validate_update=fixed("handler")),
    ),
)  # fmt: skip
