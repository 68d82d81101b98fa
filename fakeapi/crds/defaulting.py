"""What the server fills into a custom resource definition.

Source: apiextensions-apiserver pkg/apis/apiextensions/v1/defaults.go and
pkg/registry/customresourcedefinition/strategy.go of v0.36.3.
"""

from __future__ import annotations

from fakeapi.types.objects import Json, child, mapping, mappings, text, texts


def apply_defaults(definition: Json) -> None:
    """Fill in what a definition leaves open."""
    spec = child(definition, "spec")
    own = child(spec, "names")
    if not own.get("singular"):
        own["singular"] = text(own.get("kind")).lower()
        if not own["singular"]:
            del own["singular"]
    if not own.get("listKind") and own.get("kind"):
        own["listKind"] = f"{own['kind']}List"
    if "conversion" not in spec:
        spec["conversion"] = {"strategy": "None"}
    webhook = mapping(mapping(spec["conversion"]).get("webhook"))
    service = mapping(webhook.get("clientConfig")).get("service")
    if isinstance(service, dict) and service.get("port") is None:
        service["port"] = 443


def note_storage_version(definition: Json) -> None:
    """The version that objects are stored in belongs to those they were ever stored in."""
    versions = mappings(mapping(definition.get("spec")).get("versions"))
    name = next((text(version.get("name")) for version in versions if version.get("storage")), "")
    status = child(definition, "status")
    stored = texts(status.get("storedVersions"))
    if name and name not in stored:
        status["storedVersions"] = [*stored, name]
