"""Changes of objects: one field after another, of the same type."""

import msgspec

from scheduler.api.core import ObjectMeta
from scheduler.api.storage import StorageClass
from scheduler.api.unstructured import Unstructured
from scheduler.testing.object_changes import changes_of


def _fields(obj: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(obj, enc_hook=dict))


def test_each_field_is_changed_alone_and_keeps_its_type() -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "annotations": {"note": "x"}},
        "data": {"cpu": "20m", "mode": "strict", "limits": [5, True]},
    }
    other = {**config, "data": {"mode": "lenient"}}

    def changed(**data: object) -> dict[str, object]:
        return {**config, "data": {**config["data"], **data}}  # type: ignore[dict-item]

    found = [_fields(each) for each in changes_of(Unstructured(config), [Unstructured(other)])]
    assert found == [
        {**config, "metadata": {"name": "c", "annotations": {}}},
        changed(cpu="1m"),
        changed(cpu="20000m"),
        changed(mode="lenient"),
        changed(limits=[1, True]),
        changed(limits=[5000, True]),
        changed(limits=[5, False]),
    ]


def test_a_typed_object_keeps_its_type() -> None:
    metadata = ObjectMeta(name="s", labels={"tier": "1"})
    found = list(changes_of(StorageClass(metadata=metadata), []))
    assert found
    assert all(isinstance(each, StorageClass) for each in found)
    assert {} in [dict(each.metadata.labels) for each in found]
