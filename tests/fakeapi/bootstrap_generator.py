"""Writes fakeapi/security/bootstrap.json: the roles and bindings that kube-apiserver begins with.

    python -m tests.fakeapi.bootstrap_generator KUBERNETES_SOURCE

The facts are the golden files of bootstrappolicy, those for the default feature gates. Roles of
controllers, which this server has none of, are left out.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

GOLDEN = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata"
TARGET = Path(__file__).parents[2] / "fakeapi" / "security" / "bootstrap.json"
FILES = ("cluster-roles", "cluster-role-bindings", "namespace-roles", "namespace-role-bindings")
#: Labels and annotations that all of them have.
COMMON = {"kubernetes.io/bootstrapping", "rbac.authorization.kubernetes.io/autoupdate"}

Json = dict[str, Any]


def items_of(path: Path) -> list[Json]:
    """The objects of a golden file, Lists taken apart."""
    found: list[Json] = []
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        found += document.get("items", [document])
    return found


def brief(obj: Json) -> Json:
    """The object without what all of them have."""
    metadata = obj["metadata"]
    labels = {key: value for key, value in metadata["labels"].items() if key not in COMMON}
    kept = {"name": metadata["name"], "namespace": metadata.get("namespace"), "labels": labels}
    rest = {key: obj[key] for key in ("aggregationRule", "rules", "roleRef", "subjects")
            if obj.get(key)}  # fmt: skip
    return {
        "kind": obj["kind"],
        "metadata": {key: value for key, value in kept.items() if value},
        **rest,
    }


def main(source: Path) -> None:
    """Read the golden files below the source and write the table."""
    lines = [
        json.dumps(brief(obj), separators=(",", ":"))
        for name in FILES
        for obj in items_of(source / GOLDEN / f"{name}.yaml")
    ]
    TARGET.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
