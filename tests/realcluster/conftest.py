"""A real cluster for each module of tests, and the figures of all tests, ours beside stock's.

The folder is not among those that pytest collects by itself (`norecursedirs` in pyproject.toml).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import aiohttp
import pytest
from _pytest.terminal import TerminalReporter

from tests.fakeapi.api_client import ApiClient
from tests.realcluster.binaries import NoBinary
from tests.realcluster.cluster import RealCluster

Note = Callable[..., None]


_CLOSING_SECONDS = 0.2
_FIGURES = pytest.StashKey[dict[str, dict[str, dict[str, object]]]]()


@pytest.fixture(scope="module")
def running_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """A real cluster; `API_SERVER_FLAGS` of the module are further flags of the API server."""
    flags = getattr(request.module, "API_SERVER_FLAGS", ())
    try:
        cluster = RealCluster(tmp_path_factory.mktemp("cluster"), api_server_flags=flags)
    except NoBinary as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster: RealCluster) -> RealCluster:
    """A real cluster without pods, nodes and leases."""
    running_cluster.clear()
    return running_cluster


@pytest.fixture
async def session(cluster: RealCluster) -> AsyncIterator[aiohttp.ClientSession]:
    """Connections of an administrator."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=cluster.tls()),
        headers={"Authorization": f"Bearer {cluster.token}"},
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        yield session
    # aiohttp closes connections with TLS a little after the session.
    await asyncio.sleep(_CLOSING_SECONDS)


@pytest.fixture
def api(cluster: RealCluster, session: aiohttp.ClientSession) -> ApiClient:
    return ApiClient(session, cluster.url)


@pytest.fixture
def note_figures(request: pytest.FixtureRequest) -> Note:
    """Return a function that notes figures of a scheduler for the table at the end."""
    config = request.config
    name = request.node.name.removeprefix("test_").replace("_", " ")
    title = f"{request.node.path.stem.removeprefix('test_').replace('_', ' ')}: {name}"

    def note(kind: str, **figures: object) -> None:
        table = config.stash.setdefault(_FIGURES, {})
        table.setdefault(title, {}).setdefault(kind, {}).update(figures)

    return note


def pytest_terminal_summary(
    terminalreporter: TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    for title, kinds in config.stash.get(_FIGURES, {}).items():
        terminalreporter.write_line(title)
        for kind, figures in sorted(kinds.items()):
            shown = ", ".join(
                f"{name.replace('_', ' ')} {value}" for name, value in figures.items()
            )
            terminalreporter.write_line(f"  {kind:<7} {shown}")
