"""The API versions that --runtime-config turns on."""

import pytest

from fakeapi.kinds.built_in import RuntimeConfigError, served_kinds

ALPHA = "scheduling.k8s.io/v1alpha2"


@pytest.mark.parametrize(
    ("given", "is_on"),
    [
        ((), False),
        ("", False),
        ("api/alpha=true", True),
        ("api/alpha", True),
        (f"{ALPHA}=true", True),
        ("api/all=true", True),
        ("api/all=true,api/alpha=false", False),
        (["api/alpha=true", f"{ALPHA}=false"], False),
        ([f"{ALPHA}=true, apps/v1=true"], True),
        ("api/beta=true,v1=true", False),
    ],
)
def test_the_most_specific_part_counts(given: str | list[str], is_on: bool) -> None:
    versions = {kind.api_version for kind in served_kinds(given)}
    assert {"v1", "apps/v1"} <= versions
    assert (ALPHA in versions) == is_on


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("scheduling.k8s.io/v9=true", "unknown API version 'scheduling.k8s.io/v9'"),
        ("api/alpha=yes", "api/alpha=yes is neither true nor false"),
        ("v1=false", "v1 cannot be turned off"),
        ("api/all=false", "cannot be turned off"),
    ],
)
def test_a_bad_runtime_config_is_refused(given: str, error: str) -> None:
    with pytest.raises(RuntimeConfigError, match=error):
        served_kinds(given)
