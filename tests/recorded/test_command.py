"""`python -m tests.recorded` as a person calls it."""

import gzip
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from .__main__ import main

NODE = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "1"}}}
POD = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}}
LINE = json.dumps({"name": "s", "objects": [NODE], "pods": [POD]}).encode() + b"\n"


def test_plain_and_gzipped_files_are_played_in_turn(tmp_path: Path) -> None:
    plain, gzipped, out = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz", tmp_path / "out.jsonl"
    plain.write_bytes(LINE + b"\n")
    gzipped.write_bytes(gzip.compress(LINE))
    main([str(plain), str(gzipped), "-o", str(out)])
    decided = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert [line["pods"][0]["node"] for line in decided] == ["n", "n"]


def test_scenarios_come_from_standard_input_and_go_to_standard_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(LINE)))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    main(["-", "--scheduler-version", "1.36"])
    assert json.loads(out.getvalue())["name"] == "s"


def test_another_version_is_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["-", "--scheduler-version", "1.12"])
    assert exited.value.code == 2
    assert "invalid choice: '1.12' (choose from '1.34', '1.35', '1.36', " in capsys.readouterr().err


def test_a_file_that_is_not_there_is_one_line() -> None:
    with pytest.raises(SystemExit, match=r"^tests.recorded: /nowhere: No such file or directory$"):
        main(["/nowhere"])
