"""Columns of custom resources."""

from typing import Any

import pytest

from fakeapi.printing.custom import custom_columns

OBJECT: dict[str, Any] = {
    "metadata": {
        "name": "x",
        "creationTimestamp": "1970-01-01T00:00:00Z",
        "labels": {"a.b/c": "l"},
    },
    "spec": {"replicas": 3, "ratio": 1.5, "on": True, "huge": 1e300, "names": ["p", "q", "r"]},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "code": 1},
            {"type": "Synced", "status": "False", "code": 5},
        ]
    },
}


@pytest.mark.parametrize(
    ("declared", "path", "cell"),
    [
        ("string", ".metadata.name", "x"),
        ("string", ".spec.replicas", "3"),
        ("string", ".spec.names", '["p","q","r"]'),
        ("integer", ".spec.replicas", 3),
        ("integer", ".spec.ratio", 1),
        ("integer", ".spec.huge", None),
        ("number", ".spec.ratio", 1.5),
        ("boolean", ".spec.on", True),
        ("boolean", ".spec.replicas", None),
        ("date", ".metadata.creationTimestamp", "100s"),
        ("date", ".metadata.name", "<invalid>"),
        ("integer", ".metadata.name", None),
        ("string", ".nothing", None),
    ],
)
def test_cells_are_of_the_type_of_their_column(declared: str, path: str, cell: object) -> None:
    columns = custom_columns([{"name": "C", "type": declared, "jsonPath": path, "priority": 1}])
    assert [column.cell(OBJECT, 100.0) for column in columns] == ["x", cell]
    column = columns[1]
    assert (column.name, column.priority) == ("C", 1)
    assert column.description.endswith(path)


def test_resources_that_declare_nothing_show_their_age() -> None:
    columns = custom_columns(())
    assert [column.name for column in columns] == ["Name", "Age"]
    assert [column.cell(OBJECT, 100.0) for column in columns] == ["x", "100s"]
