"""Candidates for leases. The texts are those of a kube-apiserver v1.36.3."""

import pytest

from fakeapi.kinds.leases import KINDS, version_key

LEASE, CANDIDATE = (kind.rules for kind in KINDS)
SPEC = {
    "leaseName": "l",
    "binaryVersion": "1.2.3",
    "emulationVersion": "1.2.0",
    "strategy": "OldestEmulationVersion",
}


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({}, []),
        ({"strategy": "example.com/best"}, []),
        ({"leaseName": ""}, ["spec.leaseName: Required value"]),
        (
            {"binaryVersion": "1.2"},
            [
                'spec.binaryVersion: Invalid value: "1.2": must be a valid semantic version',
                'spec.binaryVersion: Invalid value: "1.2": must be greater than or equal to '
                "`emulationVersion`",
            ],
        ),
        (
            {"emulationVersion": "0.0.0"},
            [
                "spec.emulationVersion: Required value: must be specified when `strategy` is "
                "'OldestEmulationVersion'"
            ],
        ),
        (
            {"strategy": "Best"},
            [
                'spec.strategy.strategy: Unsupported value: "Best": supported values: '
                '"OldestEmulationVersion"'
            ],
        ),
    ],
)
def test_a_candidate_has_versions_and_a_strategy(
    changes: dict[str, object], messages: list[str]
) -> None:
    errors = CANDIDATE.validate({"spec": {**SPEC, **changes}})
    assert [f"{error.field}: {error.message}" for error in errors] == messages


def test_a_lease_has_a_known_strategy() -> None:
    (error,) = LEASE.validate({"spec": {"strategy": ""}})
    assert error.field == "spec.strategy.strategy"


def test_versions_are_compared_as_semantic_versions() -> None:
    names = ["1.2.0-alpha", "1.2.0-alpha.1", "1.2.0-alpha.b", "1.2.0-beta", "1.2.0", "1.10.0"]
    assert sorted(sorted(names), key=version_key) == names
