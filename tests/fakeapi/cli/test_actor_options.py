"""`--actors` and `--provisioner`: chosen actors, and refused names."""

import aiohttp
import pytest
from click.testing import CliRunner

from fakeapi import FakeApiServer, ManualClock
from fakeapi.cli.actor_options import ActorOptions
from fakeapi.cli.command import command

from ..api_client import ApiClient
from ..objects import CONFIG_MAPS, config_map


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--actors", "kubelet,magic"],
            "'magic': expected all, or some of kubelet, node-lifecycle",
        ),
        (["--actors", ""], "'--actors': '': expected all, or some of kubelet, node-lifecycle"),
        (["--actors", "gc,"], "'--actors': '': expected all, or some of kubelet, node-lifecycle"),
        (["--provisioner", "x"], "--provisioner is for --actors volumes"),
        (["--provisioner", "x", "--actors", "gc"], "--provisioner is for --actors volumes"),
        (["--pods-complete-after", "5s"], "--pods-complete-after is for --actors kubelet"),
        (["--actors", "all", "--pods-complete-after", "5"], "missing unit in duration"),
        (["--actors", "all", "--pods-complete-after", "-5s"], "expected 0 or more"),
    ],
)
def test_invalid_flags_are_refused(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code in (1, 2)
    assert complaint in result.output


async def test_all_actors_together_become_idle() -> None:
    names = ("kubelet", "node-lifecycle", "gc", "owners", "pdb", "volumes")
    async with (
        FakeApiServer(clock=ManualClock()) as server,
        ActorOptions(names=names, provisioners=("x",)).actors(server) as actors,
        aiohttp.ClientSession() as session,
    ):
        await actors.wait_until_idle()
        await ApiClient(session, server.url).create(CONFIG_MAPS, config_map("c"))
        assert not actors.is_idle  # the news is on its way
        await actors.wait_until_idle()
        assert actors.is_idle
