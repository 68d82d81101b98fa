"""One of the two schedulers that are compared, from its text on the command line.

    [config=FILE] [gates=NAME=true,...] [plugin=MODULE:CLASS] [version=1.35] [name=LABEL] TARGET
    [context=NAME] [version=1.35] [name=LABEL] kubeconfig:FILE

TARGET is `ours`, `kubesched@VERSION` for ours as it decides in that version, `MODULE:FUNCTION` for
a scheduler in this process, or a command with `{kubeconfig}` or `{config}` in it.
`kubeconfig:FILE` is a running cluster with its scheduler. `version` is the version of
kube-scheduler by whose rules the decisions of the side are judged.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..errors import InputError
from ..targets import target_kind
from ..targets.target import OUR_SCHEDULER_AS, read_configuration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..api import Json
    from ..format.case import Case
    from ..targets.target import TargetKind, TargetOptions

_OURS: Final = "ours"
_CLUSTER: Final = "kubeconfig:"
_SETTINGS: Final = ("config", "gates", "plugin", "context", "version", "name")
#: Fields of a configuration that the suite sets itself.
_OF_THE_SUITE: Final = frozenset({"apiVersion", "kind", "clientConnection", "leaderElection"})
_LABEL_LENGTH_MAX: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A scheduler with its configuration and its feature gates."""

    label: str
    kind: TargetKind
    config: Json = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    plugins: tuple[str, ...] = ()
    #: The version by whose rules the referee judges; empty for the default.
    version: str = ""

    def adapted(self, case: Case) -> Case:
        """Return the case with this side's configuration and gates over the case's own."""
        if not self.config and not self.gates:
            return case
        config = {**(case.config or {}), **self.config} if self.config else case.config
        return msgspec.structs.replace(case, config=config, gates={**case.gates, **self.gates})


def side_of(text: str, *, option: str, base: TargetOptions) -> Side:
    """Parse the value of an option. `base` has the other settings of the target.

    Raises InputError.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}: {text}") from error
    settings: dict[str, list[str]] = {name: [] for name in _SETTINGS}
    while words and words[0].partition("=")[0] in _SETTINGS and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        settings[name].append(value)
    if not words:
        raise InputError(
            f"{option}: expected ours, kubesched@VERSION, MODULE:FUNCTION or a command, "
            f"got {text!r}"
        )
    plugins = tuple(settings["plugin"])
    if (words[0].startswith(_CLUSTER)) and (settings["config"] or settings["gates"]):
        raise InputError(f"{option}: {words[0]}: a running cluster takes no config= or gates=")
    target = msgspec.structs.replace(
        base, plugins=plugins, context=(settings["context"] or [""])[-1], **_chosen(words)
    )
    try:
        kind = target_kind(target)
    except InputError as error:
        raise InputError(f"{option}: {error}") from error
    return Side(
        label=(settings["name"] or [_label(text)])[-1],
        kind=kind,
        config=_config(settings["config"], option),
        gates=_gates(",".join(settings["gates"]), option),
        plugins=plugins,
        version=target.scheduler_version or (settings["version"] or [""])[-1],
    )


def _chosen(words: list[str]) -> dict[str, str]:
    """Return the field of TargetOptions that the words choose, and its value."""
    first = words[0]
    if words == [_OURS]:
        return {}
    if first.startswith(_CLUSTER):
        return {"kubeconfig": first.removeprefix(_CLUSTER)}
    if len(words) == 1 and (
        first.startswith(OUR_SCHEDULER_AS) or (":" in first and "{" not in first)
    ):
        return {"in_process": first}
    return {"command": shlex.join(words)}


def _label(text: str) -> str:
    return text if len(text) <= _LABEL_LENGTH_MAX else f"{text[: _LABEL_LENGTH_MAX - 3]}..."


def _config(files: list[str], option: str) -> Json:
    merged: Json = {}
    for file in files:
        merged.update(read_configuration(Path(file), option=option))
    return {name: value for name, value in merged.items() if name not in _OF_THE_SUITE}


def _gates(text: str, option: str) -> dict[str, bool]:
    gates: dict[str, bool] = {}
    for setting in filter(None, text.split(",")):
        name, _, value = setting.partition("=")
        if value not in ("true", "false"):
            raise InputError(f"{option}: gates: expected NAME=true or NAME=false, got {setting}")
        gates[name] = value == "true"
    return gates
