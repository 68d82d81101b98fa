"""Reads data files: `data/<plugin>/<topic>.yaml`, whose form is in README.md beside this file."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
import yaml

from scheduler.api.core import Node, Pod, Struct
from scheduler.config import FeatureGates, default_feature_gates
from scheduler.config.go_yaml import SAFE_LOADER
from scheduler.config.versions import DEFAULT_SCHEDULER_VERSION, SchedulerVersion
from scheduler.framework import Code, Status
from scheduler.snapshot import Snapshot
from scheduler.testing import snapshot_of
from tests.plugins.running import Verdict

DATA = Path(__file__).parent / "data"

T = TypeVar("T", bound=Struct)
Fields = dict[str, Any]


class DataError(Exception):
    """A data file breaks the format of README.md; names the file and the case."""


@dataclass(frozen=True)
class Case:
    """One case of an upstream table. `fields` is all that the plugin's own test reads."""

    upstream: str
    source: str
    description: str
    fields: Fields

    def __getitem__(self, name: str) -> Any:
        if name not in self.fields:
            raise DataError(f"{self.source}: no field {name!r}")
        return self.fields[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.fields.get(name, default)


@functools.cache
def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file; it is read only once."""
    return yaml.load(path.read_text(encoding="utf-8"), SAFE_LOADER)  # noqa: S506 - it is safe


def load(path: Path) -> list[Case]:
    """The cases of one file; raises DataError for a file that is not in the form."""
    document = read_yaml(path)
    where = path.relative_to(DATA)
    if not isinstance(document, dict) or document.keys() - {"upstream", "shared", "cases"}:
        raise DataError(f"{where}: expected the keys upstream, cases and perhaps shared")
    cases = []
    for entry in document["cases"]:
        fields = dict(entry)
        source, description = fields.pop("source", ""), fields.pop("description", "")
        if not source or not description:
            raise DataError(f"{where}: {source or entry}: expected a source and a description")
        cases.append(Case(document["upstream"], source, description, fields))
    return cases


def load_all() -> dict[Path, list[Case]]:
    """Every data file with its cases."""
    return {path: load(path) for path in sorted(DATA.glob("*/*.yaml"))}


def cases(plugin: str, topic: str) -> list[Any]:
    """The cases of `data/<plugin>/<topic>.yaml`, as parameters named after their sources."""
    path = DATA / plugin / f"{topic}.yaml"
    return [pytest.param(case, id=case.source) for case in load(path)]


def version_of(case: Case) -> SchedulerVersion:
    """The case's `scheduler_version`; without one it is upstream's of the tables."""
    text: str = case.get("scheduler_version", DEFAULT_SCHEDULER_VERSION.label)
    return SchedulerVersion.parse(text)


def feature_gates(case: Case) -> FeatureGates:
    """The gates that are on by default, with the case's `gates`: `{name: true or false}`."""
    wanted: dict[str, bool] = case.get("gates", {})
    on = {name for name, is_on in wanted.items() if is_on}
    return (default_feature_gates(version_of(case)) - wanted.keys()) | on


def pod(value: Fields, *, name: str = "pod") -> Pod:
    """A pod from its API form. A pod without a name gets one, one without a uid gets its own."""
    return _read(Pod, value, name)


def node(value: Fields, *, name: str = "node") -> Node:
    """A node from its API form. A node without a name gets one."""
    return _read(Node, value, name)


def api_object(kind: type[T], value: Fields) -> T:
    """Any other object from its API form."""
    return msgspec.convert(value, kind)


def _read(kind: type[T], value: Fields, name: str) -> T:
    metadata = {"name": name, **value.get("metadata", {})}
    unique = f"uid-{metadata.get('namespace', '')}-{metadata['name']}"
    return msgspec.convert({**value, "metadata": {"uid": unique, **metadata}}, kind)


def nodes_of(case: Case) -> list[Node]:
    """The case's `nodes`, or its one `node`; those without a name are node-0, node-1, ..."""
    values = case["nodes"] if "nodes" in case.fields else [case.get("node", {})]
    return [node(value or {}, name=f"node-{i}") for i, value in enumerate(values)]


def pods_of(case: Case) -> list[Pod]:
    """The case's `pods` (those there already); a pod without a name is existing-0, ..."""
    return [pod(value, name=f"existing-{i}") for i, value in enumerate(case.get("pods") or [])]


def snapshot(case: Case) -> Snapshot:
    """The case's `nodes` (or `node`) with its `pods`, each on the node its spec names."""
    return snapshot_of(nodes_of(case), pods_of(case))


def verdict(value: Fields | str | None) -> Verdict | None:
    """A status as data has it: a code, or `{code:, reasons: [...]}`; absent for success."""
    if value is None or value == "Success":
        return None
    if isinstance(value, str):
        return value, ()
    return value["code"], tuple(value.get("reasons", ()))


def verdicts(values: dict[str, Fields | str]) -> dict[str, Verdict]:
    """Statuses by node; nodes that pass are left out."""
    return {name: found for name, value in values.items() if (found := verdict(value))}


def status_of(value: Fields | str) -> Status:
    """A status from data: a code, or `{code:, reasons: [...]}`. Wait is for a minute."""
    name = value if isinstance(value, str) else value["code"]
    reasons = () if isinstance(value, str) else value.get("reasons", ())
    code = next(code for code in Code if str(code) == name)
    return Status(code, *reasons, timeout_seconds=60.0)
