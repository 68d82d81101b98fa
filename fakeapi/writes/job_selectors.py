"""What the server adds to a new Job so that it finds its pods and no other's.

Source: generateSelector in pkg/registry/batch/job/strategy.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.objects import Json, child, labels_of, mapping, metadata_of

__all__ = ["generate_selector"]

_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")


def generate_selector(job: Json) -> None:
    """Label the template with name and uid, and select by uid; not for a manualSelector."""
    spec = child(job, "spec")
    if spec.get("manualSelector") is True:
        return
    metadata = metadata_of(job)
    labels = child(child(child(spec, "template"), "metadata"), "labels")
    for names, value in ((_NAME_LABELS, metadata.get("name")), (_UID_LABELS, metadata.get("uid"))):
        for name in names:
            labels.setdefault(name, value)
    if not labels_of(job):  # upstream's gets its template's when it is read again
        child(job, "metadata")["labels"] = dict(labels)
    selector = {**mapping(spec.get("selector"))}
    matched = {_UID_LABELS[1]: metadata.get("uid"), **mapping(selector.get("matchLabels"))}
    spec["selector"] = {**selector, "matchLabels": matched}
