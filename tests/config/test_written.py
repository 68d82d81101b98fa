"""--write-config-to writes kube-scheduler's bytes, as recorded by `written/record.py`."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler import run
from tests.config.written.record import FOLDER, arguments


@pytest.fixture
def own_logging() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers = handlers


SOURCES = sorted(FOLDER.glob("*.in.yaml"))


def test_there_are_enough_recordings() -> None:
    assert len(SOURCES) >= 30


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name.removesuffix(".in.yaml"))
def test_the_written_configuration_is_upstreams(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "written.yaml"
    run(args=arguments(source, target))
    recorded = source.with_name(source.name.replace(".in.", ".out."))
    assert target.read_text(encoding="utf-8") == recorded.read_text(encoding="utf-8")
