"""Find the settings that a version of kube-scheduler refuses: flags, gates, configuration, metrics.

Our scheduler is started as each version with the settings, as far as their validation. After a
refusal that names a flag, a gate or a field of the configuration, it is started again without that
one, so that the next refusal is found, too. The messages are those of kube-scheduler.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import yaml

from ..errors import InputError
from .fields import refused_fields, remove_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

_SCHEDULER: Final = (sys.executable, "-P", "-m", "scheduler")
_METRICS: Final = (sys.executable, "-P", "-m", "scheduler.explain", "metrics")
_GATES: Final = "--feature-gates"
_EMULATED: Final = "--emulated-version"
#: Flags that name files of the machine on which the scheduler runs.
_OF_THE_MACHINE: Final = re.compile(
    "--(config|kubeconfig|(authentication|authorization)-kubeconfig|(tls|client|requestheader)-"
    "[a-z-]*file|cert-dir)(=|$)"
)
_START_SECONDS_MAX: Final = 60.0
#: The error in a line of the log.
_LOGGED: Final = re.compile(r' err=(?P<text>".*")')
#: The name of a metric in a rule or a dashboard, without the suffix of a histogram's series.
_METRIC: Final = re.compile(
    r"\b((?:scheduler|dynamic_resource_allocation)_[a-z0-9_]+?)(?:_bucket|_sum|_count)?\b"
)


#: Flags that some messages call by another name.
_OTHER_NAMES: Final = {
    _EMULATED: "emulation version",
    "--min-compatibility-version": "minCompatibilityVersion",
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a scheduler: its command line, a configuration, and names of metrics."""

    flags: tuple[str, ...] = ()
    config: Path | None = None
    metrics: frozenset[str] = frozenset()

    @classmethod
    def of(cls, command: str, config: Path | None, metrics: Iterable[Path]) -> Settings:
        """Read a command line, and the names of metrics in files. Raises InputError."""
        try:
            words = shlex.split(command)
            texts = [path.read_text(encoding="utf-8") for path in metrics]
        except ValueError as error:
            raise InputError(f"--scheduler-command: {error}") from error
        except OSError as error:
            raise InputError(f"--metrics: {error.filename}: {error.strerror}") from error
        flags = words[1:] if words and not words[0].startswith("-") else words
        for word in flags:
            if not word.startswith("--"):
                raise InputError(f"--scheduler-command: expected flags --NAME=VALUE, got {word!r}")
        return cls(
            flags=tuple(_one_by_one(flags)),
            config=config,
            metrics=frozenset(name for text in texts for name in _METRIC.findall(text)),
        )

    @property
    def gates(self) -> list[str]:
        """The arguments on which the feature gates depend."""
        return [flag for flag in self.flags if flag.startswith((f"{_GATES}=", f"{_EMULATED}="))]


class Refusal(msgspec.Struct, frozen=True):
    """A setting that stops working, the first version that refuses the setting, and the message."""

    version: str
    setting: str
    text: str


class _Configuration:
    """A configuration from which the refused fields are removed; the file itself stays."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._folder: Final = tempfile.TemporaryDirectory(prefix="conformance-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def without_refused_fields(self, message: str) -> dict[str, str]:
        """Remove the fields that a message refuses; return the messages by setting."""
        if self.path is None:
            return {}
        try:
            document = yaml.safe_load(self.path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            return {}
        refused = {
            f"field {path}": text
            for path, text in refused_fields(message)
            if remove_field(document, path)
        }
        self.path = Path(self._folder.name) / "config.yaml"
        self.path.write_text(json.dumps(document), encoding="utf-8")
        return refused


def refusals(settings: Settings, versions: Sequence[str]) -> list[Refusal]:
    """Return the settings that the first version accepts, and a later version refuses.

    Raises InputError if the scheduler does not start for another reason.
    """
    base, *later = versions
    known = {*_refused(settings, base)}
    found: dict[str, Refusal] = {}
    for version in later:
        for setting, text in _refused(settings, version).items():
            if setting not in known:
                found.setdefault(setting, Refusal(version, setting, text))
    return list(found.values())


def _one_by_one(flags: Iterable[str]) -> Iterator[str]:
    """Yield the flags that a version may refuse, with one argument for each feature gate."""
    for word in flags:
        name, _, value = word.partition("=")
        if name == _GATES:
            yield from (f"{_GATES}={gate}" for gate in value.split(",") if gate)
        elif not _OF_THE_MACHINE.match(word):
            yield word


def _refused(settings: Settings, version: str) -> dict[str, str]:
    """Return the message for each setting that a version refuses."""
    refused: dict[str, str] = {}
    flags = list(settings.flags)
    with _Configuration(settings.config) as config:
        while text := _problem(config.path, flags, version):
            flag = next((word for word in flags if _names(text, word)), None)
            if flag is not None:
                refused[flag] = text
                flags.remove(flag)
            elif fields := config.without_refused_fields(text):
                refused |= fields
            else:
                refused["the flags" if config.path is None else "the configuration"] = text
                break
    missing = settings.metrics - _metrics_of(version) if settings.metrics else frozenset()
    return refused | {f"metric {name}": f"{version} has no such metric" for name in sorted(missing)}


def _problem(config: Path | None, flags: Sequence[str], version: str) -> str:
    """Return the message with which the scheduler refuses to start; empty if it would start."""
    file = (f"--config={config}",) if config is not None else ()
    # With this flag the scheduler validates its settings, writes them and ends.
    only_validated = (
        f"--scheduler-version={version}",
        "--write-config-to=/dev/null",
        "--master=http://127.0.0.1",
    )
    done = _run((*_SCHEDULER, *flags, *file, *only_validated))
    if done.returncode == 0:
        return ""
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    logged = _LOGGED.search(last)
    text = str(json.loads(logged["text"])) if logged is not None else last
    return text.removeprefix(f"{config}: ")


def _names(text: str, flag: str) -> bool:
    """Return True if a message is about a flag or, of `--feature-gates`, about its gate."""
    name, _, value = flag.partition("=")
    words = [name, _OTHER_NAMES.get(name, name)]
    if name == _GATES:
        words = [value.partition("=")[0].rpartition(":")[2]]
    return any(re.search(rf"(?<![\w-]){re.escape(w)}(?![\w-])", text) for w in words)


def _metrics_of(version: str) -> frozenset[str]:
    return frozenset(_run((*_METRICS, "--scheduler-version", version)).stdout.split())


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            timeout=_START_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{shlex.join(command)}: no answer in {error.timeout:.0f} s") from error
