"""JSON paths of columns."""

from typing import Any

import pytest

from fakeapi.types.json_path import JsonPath

OBJECT: dict[str, Any] = {
    "metadata": {
        "name": "x",
        "creationTimestamp": "1970-01-01T00:00:00Z",
        "labels": {"a.b/c": "l"},
    },
    "spec": {"replicas": 3, "ratio": 1.5, "on": True, "names": ["p", "q", "r"]},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "code": 1},
            {"type": "Synced", "status": "False", "code": 5},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.replicas", [3]),
        ("$.spec.replicas", [3]),
        (".spec.nothing.there", []),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Synced')].status", ["False"]),
        (".status.conditions[?(@.code>1)].type", ["Synced"]),
        (".status.conditions[?(@.code <= 1)].type", ["Ready"]),
        ('.status.conditions[?(@.type!="Ready")].type', ["Synced"]),
        (".status.conditions[?(@.code)].type", ["Ready", "Synced"]),
        (".status.conditions[*].type", ["Ready", "Synced"]),
        (".spec.names[0]", ["p"]),
        (".spec.names[-1]", ["r"]),
        (".spec.names[7]", []),
        (".spec.names[1:]", [["q", "r"]]),
        (".metadata.labels.a\\.b/c", ["l"]),
        (".metadata.labels['a.b/c']", ["l"]),
        ('.metadata["name"]', ["x"]),
    ],
)
def test_paths_lead_to_values(path: str, found: list[object]) -> None:
    expected = found[0] if path.endswith("[1:]") else found
    assert JsonPath(path).find(OBJECT) == expected


@pytest.mark.parametrize("path", ["spec.x", ".spec[", ".spec[?(@.a==b)]", ".a b", "{.spec}"])
def test_bad_paths_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"JSONPath|cannot compare"):
        JsonPath(path)


@pytest.mark.parametrize("index", ["+1", "1-", "--1", "9" * 20, "9" * 5000])
def test_an_index_is_an_integer_of_64_bits(index: str) -> None:
    with pytest.raises(ValueError, match="no JSONPath"):
        JsonPath(f".spec[{index}]")
    assert JsonPath(f".spec.names[{'0' * 5000}1]").find({"spec": {"names": [1, 2]}}) == [2]
