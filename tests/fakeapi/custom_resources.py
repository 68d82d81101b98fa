"""Custom resource definitions that tests use."""

from typing import Any

Json = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
SPEC: Json = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1},
        "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
        "replicas": {"type": "integer"},
        "port": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "note": {"type": "string", "nullable": True},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "weight": {"type": "integer", "default": 1},
                },
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    },
}
STATUS: Json = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer", "maximum": 9},
        "selector": {"type": "string"},
    },
}
SCALE: Json = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def schema(**properties: Any) -> Json:
    """The schema of a whole object."""
    return {"type": "object", "properties": properties or {"spec": SPEC, "status": STATUS}}


def version(name: str = "v1", node: Json | None = None, **fields: Any) -> Json:
    """A served version that objects are stored in, with status and scale."""
    return {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema() if node is None else node},
        "subresources": {"status": {}, "scale": SCALE},
        **fields,
    }


def definition(*versions: Json, **spec: Any) -> Json:
    """The definition of Widgets."""
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": list(versions or [version()]),
            **spec,
        },
    }


def widget(name: str = "w", **spec: Any) -> Json:
    """A Widget."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, **spec},
    }
