"""The tables of this folder: YAML lists of cases, most of them upstream's."""

import copy
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    FeatureGates,
    KubeSchedulerConfiguration,
    Scheme,
    default_config,
    encode_config,
)
from scheduler.plugins import SCHEME
from tests.upstream.loading import read_yaml

FOLDER = Path(__file__).parent

Case = dict[str, Any]


def read(name: str) -> list[Case]:
    cases: list[Case] = read_yaml(FOLDER / name)
    return cases


def table(name: str) -> list[Any]:
    """The cases of a table as parameters, each under its source and description."""
    cases = [case for case in read(name) if "source" in case]
    return [pytest.param(case, id=f"{case['source']}: {case['description']}") for case in cases]


def sources(*names: str) -> Counter[str]:
    """Return the number of cases of each of upstream's tables, each counted once."""
    cases = {case["source"] for name in names for case in read(name) if "source" in case}
    return Counter(source.partition("#")[0] for source in cases - {"own"})


def gates(switches: dict[str, bool] | None) -> FeatureGates:
    """The default feature gates with some switched on or off."""
    switches = switches or {}
    on = {name for name, is_on in switches.items() if is_on}
    return (DEFAULT_FEATURE_GATES | on) - (switches.keys() - on)


def scheme(switches: dict[str, bool]) -> Scheme:
    """The in-tree plugins' scheme with some feature gates switched on or off."""
    return SCHEME._replace(gates=gates(switches))


def changed(fields: Case, changes: Case) -> Case:
    """Fields with some of them, named by their paths, set anew."""
    fields = copy.deepcopy(fields)
    for path, value in changes.items():
        *above, last = (
            int(step) if step.isdigit() else step for step in re.findall(r"[^.\[\]]+", path)
        )
        node: Any = fields
        for step in above:
            node = node[step]
        node[last] = value
    return fields


def differs_from_default(config: KubeSchedulerConfiguration, want: Case) -> tuple[Case, Case]:
    """A configuration and the one it should be, as JSON and without the arguments' type meta."""
    default = _without_type_meta(encode_config(default_config(SCHEME), SCHEME.version))
    (default_profile,) = default.pop("profiles")
    profiles = want.get("profiles", [{}])
    expected = _patched(default, {**want, "profiles": None})
    expected["profiles"] = [_expected_profile(default_profile, patch) for patch in profiles]
    return _without_type_meta(encode_config(config, SCHEME.version)), expected


def _expected_profile(default: Case, patch: Case) -> Case:
    default_args = {entry["name"]: entry for entry in default["pluginConfig"]}
    plugin_config: list[Case] = []
    for entry in patch.get("pluginConfig", ["defaults"]):
        if entry == "defaults":
            given = {other["name"] for other in plugin_config}
            plugin_config += [other for name, other in default_args.items() if name not in given]
        else:
            plugin_config.append(default_args[entry] if isinstance(entry, str) else entry)
    return {**_patched(default, patch), "pluginConfig": plugin_config}


def _patched(value: Case, patch: Case) -> Case:
    """A JSON merge patch (RFC 7386)."""
    value = dict(value)
    for key, item in patch.items():
        if item is None:
            value.pop(key, None)
        else:
            value[key] = _patched(value.get(key) or {}, item) if isinstance(item, dict) else item
    return value


def _without_type_meta(encoded: Case) -> Case:
    encoded = copy.deepcopy(encoded)
    for profile in encoded["profiles"]:
        for entry in profile["pluginConfig"]:
            if isinstance(entry["args"], dict) and str(entry["args"].get("kind")).endswith("Args"):
                del entry["args"]["apiVersion"], entry["args"]["kind"]
    return encoded
