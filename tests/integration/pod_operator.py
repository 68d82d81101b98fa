"""An operator on pods, written with kopf as its users write them; test_kopf.py runs it."""

from typing import Any

import kopf


@kopf.on.create("pods")
def created(body: kopf.Body, patch: kopf.Patch, **_: Any) -> dict[str, int]:
    """Answers with a result, which kopf writes to a field that pods do not have."""
    patch.metadata.annotations["example.com/created"] = "yes"
    kopf.info(body, reason="Welcomed", message="here is a pod")
    return {"result": 1}


@kopf.on.update("pods", field="metadata.labels.team")
def moved(old: str | None, new: str | None, patch: kopf.Patch, **_: Any) -> None:
    patch.metadata.annotations["example.com/moved"] = f"{old} to {new}"


@kopf.on.delete("pods")
def deleted(patch: kopf.Patch, **_: Any) -> None:
    patch.metadata.annotations["example.com/deleted"] = "yes"
