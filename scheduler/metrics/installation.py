"""The origin of the running program, for the metric `kubernetes_build_info`."""

from __future__ import annotations

import importlib.metadata
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec


class Installation(NamedTuple):
    """The git commit that pip has installed (PEP 610), and the time; empty if unknown."""

    commit: str
    date: str

    @classmethod
    def find(cls) -> Installation:
        try:
            package = importlib.metadata.distribution("kubesched")
        except importlib.metadata.PackageNotFoundError:
            return cls("", "")
        try:
            text = package.read_text("direct_url.json")
            origin = msgspec.json.decode(text or "{}", type=_Origin)
        except msgspec.DecodeError:
            origin = _Origin()
        # An installer writes this file last.
        record = Path(str(package.locate_file(f"kubesched-{package.version}.dist-info/RECORD")))
        try:
            seconds = record.stat().st_mtime
        except OSError:
            date = ""
        else:
            date = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return cls(origin.vcs_info.get("commit_id", ""), date)


class _Origin(msgspec.Struct):
    vcs_info: dict[str, str] = msgspec.field(default_factory=dict)
