"""The recorded answers, with which the tests of fakeapi compare, are still the real server's."""

from collections.abc import Iterator

import pytest

from tests.fakeapi import exchange, record_exchanges
from tests.realcluster.binaries import NoBinary
from tests.realcluster.cluster import WITHOUT_CONTROLLER, RealCluster

#: Files with requests that no controller answers here are left out.
NAMES = sorted(path.stem for path in exchange.DIRECTORY.glob("*.yaml") if path.stem != "scale")


@pytest.fixture(scope="module")
def protecting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A cluster that gives volumes the finalizer of their protection, as the recorded one."""
    try:
        cluster = RealCluster(
            tmp_path_factory.mktemp("cluster"), disabled_admission=WITHOUT_CONTROLLER[:2]
        )
    except NoBinary as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


@pytest.mark.parametrize("name", NAMES)
def test_the_real_server_still_answers_so(protecting: RealCluster, name: str) -> None:
    found = record_exchanges.answers(protecting.url, protecting.token, name)
    # `differs` also marks answers that change from run to run.
    volatile = {request["name"] for request in exchange.read(name) if request.get("differs")}
    answers = zip(found, exchange.recorded(name), strict=True)
    assert not [each for each in answers if each[0] != each[1] and each[0]["name"] not in volatile]
