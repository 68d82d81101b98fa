"""Write `scheduler/explain/fields.json` from the OpenAPI document of Kubernetes v1.36.3.

    python -m tests.explain.manifest_fields .../kubernetes@v1.36.3/api/openapi-spec/swagger.json

`types` maps a type to its fields. A field's value is the type of its value: a name in `types`, with
`[]` before it for lists and `{}` for maps; empty for scalars and for values of any form.
"""

import json
import sys
from pathlib import Path
from typing import Any

from scheduler.client.kinds import KINDS

TARGET = Path("scheduler/explain/fields.json")


def _short(name: str) -> str:
    """`io.k8s.api.core.v1.Pod` as `core.Pod`."""
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


def _written(found: dict[str, Any]) -> str:
    """One line per type."""
    rows = [f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in found["types"].items()]
    types = ",\n".join(rows)
    return f'{{\n  "kinds": {json.dumps(found["kinds"])},\n  "types": {{\n{types}\n  }}\n}}\n'


if __name__ == "__main__":
    found = table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    TARGET.write_text(_written(found), encoding="utf-8")
