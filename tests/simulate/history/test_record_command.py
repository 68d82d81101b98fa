"""`kubesched-simulate record`: it records until a signal."""

import asyncio
import signal
from pathlib import Path

import pytest

from fakeapi import FakeApiServer
from scheduler.api.core import Node
from scheduler.simulate.history.cli import _record
from scheduler.simulate.history.format import HistoryWriter, read_history


async def test_a_cluster_is_recorded_until_a_signal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    async with FakeApiServer() as server:
        server.load([node])
        with path.open("wb") as file:
            recording = asyncio.create_task(_record("", server.url, HistoryWriter(file)))
            text = ""
            while not text and not recording.done():
                await asyncio.sleep(0.01)
                text = capsys.readouterr().err
            assert text.startswith("recording, "), "the signal has a handler by now"
            signal.raise_signal(signal.SIGTERM)
            await recording
    changes = list(read_history(path))
    assert text == f"recording, {len(changes)} objects\n"
    assert [c.object.metadata.name for c in changes if isinstance(c.object, Node)] == ["n"]
    assert capsys.readouterr().out.startswith(f"{len(changes)} changes; not seen: ")
