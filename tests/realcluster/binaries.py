"""Finds or builds the programs of a real cluster: etcd, kube-apiserver, kube-scheduler, kubectl.

A program is taken from its environment variable ($ETCD, $KUBE_APISERVER, $KUBE_SCHEDULER,
$KUBECTL), else from the cache directory ($KUBESCHED_BINARIES, by default
`~/.cache/kubesched/<version>-<digest of go.mod>`), else built by Go into that directory. The
versions are in `binaries/go.mod`, and all sources come from the Go module registry. The first build
takes about ten minutes on two cores.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

VERSION: Final = "v1.36.3"
MODULE: Final = Path(__file__).parent / "binaries"
_VERSION_PACKAGE: Final = "k8s.io/component-base/version"
_LINKER_FLAGS: Final = " ".join(
    f"-X {_VERSION_PACKAGE}.{name}={value}"
    for name, value in (("gitVersion", VERSION), ("gitMajor", "1"), ("gitMinor", "36"))
)


class NoBinary(Exception):
    """A program is neither installed nor can it be built here."""


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A program, the Go package of its `main`, and the variable that names a built one."""

    name: str
    package: str
    variable: str

    def find(self) -> Path:
        """Return the path of the program, after a build if there is none yet.

        Raises NoBinary without Go or without the modules, RuntimeError if the build fails.
        """
        if given := os.environ.get(self.variable):
            if not os.access(given, os.X_OK):
                raise NoBinary(f"${self.variable}: {given} is not a program")
            return Path(given).resolve()
        directory = _cache_directory()
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / self.name
        with (directory / "lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                self._build(path)
        return path

    def _build(self, path: Path) -> None:
        go = shutil.which("go")
        if go is None:
            raise NoBinary(f"no {self.name}: set ${self.variable}, or install Go to build it")
        if (listed := _run(go, "list", "-deps", self.package)).returncode != 0:
            raise NoBinary(f"no modules to build {self.name}: {listed.stderr[-300:]}")
        unfinished = path.with_suffix(".unfinished")
        options = ("-buildvcs=false", "-ldflags", f"-s -w {_LINKER_FLAGS}", "-o", str(unfinished))
        built = _run(go, "build", *options, self.package)
        if built.returncode != 0:
            raise RuntimeError(f"go build {self.package}: {built.stderr}")
        unfinished.rename(path)


ETCD: Final = Program("etcd", "go.etcd.io/etcd/server/v3", "ETCD")
KUBE_APISERVER: Final = Program(
    "kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "KUBE_APISERVER"
)
KUBE_SCHEDULER: Final = Program(
    "kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", "KUBE_SCHEDULER"
)
KUBECTL: Final = Program("kubectl", "k8s.io/kubernetes/cmd/kubectl", "KUBECTL")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=MODULE, capture_output=True, encoding="utf-8", check=False)


def _cache_directory() -> Path:
    if given := os.environ.get("KUBESCHED_BINARIES"):
        return Path(given)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256((MODULE / "go.mod").read_bytes()).hexdigest()[:12]
    return caches / "kubesched" / f"{VERSION}-{digest}"
