"""Write `scheduler/explain/fields.json` from OpenAPI documents of Kubernetes 1.34 to 1.37.

    python -m tests.explain.manifest_fields kubernetes@v1.3[4567].*/api/openapi-spec/swagger.json

A type has the fields that it has in any of the documents. `types` maps a type to its fields. A
field's value is the type of its value: a name in `types`, with `[]` before it for lists and `{}`
for maps; empty for scalars and for values of any form.
"""

import json
import sys
from pathlib import Path
from typing import Any

from scheduler.client.kinds import KINDS

TARGET = Path("scheduler/explain/fields.json")


def _short(name: str) -> str:
    """`io.k8s.api.core.v1.Pod` as `core.Pod`; taint rules have one name for all versions."""
    name = name.replace("resource.v1alpha3", "resource.v1beta2")
    *_, group, version, kind = name.rpartition("/")[2].split(".")
    return f"{group}.{kind}" if version == "v1" else f"{group}.{version}.{kind}"


def _type(schema: dict[str, Any], definitions: dict[str, Any], wanted: set[str]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if "properties" not in definitions[name]:
            return ""
        wanted.add(name)
        return _short(name)
    if schema.get("type") == "array":
        return f"[]{_type(schema['items'], definitions, wanted)}"
    if isinstance(values := schema.get("additionalProperties"), dict):
        return f"{{}}{_type(values, definitions, wanted)}"
    return ""


def table(swagger: dict[str, Any]) -> dict[str, Any]:
    definitions = swagger["definitions"]
    roots = {}
    wanted_kinds = {(r.group, r.version, r.kind) for r in KINDS.values()}
    wanted_kinds.add(("resource.k8s.io", "v1alpha3", "DeviceTaintRule"))
    wanted_kinds.add(("scheduling.k8s.io", "v1", "PriorityClass"))
    # The workloads of `kubesched-simulate`.
    wanted_kinds |= {("apps", "v1", kind) for kind in ("DaemonSet", "Deployment")}
    wanted_kinds |= {("batch", "v1", kind) for kind in ("CronJob", "Job")}
    for name, definition in definitions.items():
        for meaning in definition.get("x-kubernetes-group-version-kind", []):
            kind = (meaning["group"], meaning["version"], meaning["kind"])
            if kind in wanted_kinds:
                roots[meaning["kind"]] = name
    types: dict[str, dict[str, str]] = {}
    wanted = set(roots.values())
    while wanted:
        name = wanted.pop()
        if _short(name) not in types:
            fields = definitions[name]["properties"]
            types[_short(name)] = {
                field: _type(schema, definitions, wanted) for field, schema in fields.items()
            }
    kinds = {kind: _short(name) for kind, name in sorted(roots.items())}
    return {"kinds": kinds, "types": dict(sorted(types.items()))}


def _merged(tables: list[dict[str, Any]]) -> dict[str, Any]:
    kinds: dict[str, str] = {}
    types: dict[str, dict[str, str]] = {}
    for found in tables:
        kinds |= found["kinds"]
        for name, fields in found["types"].items():
            types[name] = types.get(name, {}) | fields
    return {"kinds": dict(sorted(kinds.items())), "types": dict(sorted(types.items()))}


def _written(found: dict[str, Any]) -> str:
    """One line per type."""
    rows = [f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in found["types"].items()]
    types = ",\n".join(rows)
    return f'{{\n  "kinds": {json.dumps(found["kinds"])},\n  "types": {{\n{types}\n  }}\n}}\n'


if __name__ == "__main__":
    tables = [table(json.loads(Path(path).read_text(encoding="utf-8"))) for path in sys.argv[1:]]
    TARGET.write_text(_written(_merged(tables)), encoding="utf-8")
