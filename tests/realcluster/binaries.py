"""Finds or builds stock programs of any version: etcd, kube-apiserver, kube-scheduler and others.

A program of the default version is taken from its environment variable (such as $ETCD) if there is
one. Otherwise it is in the cache directory
($KUBESCHED_BINARIES, by default `~/.cache/kubesched`, and in it `v1.36.3`), or Go builds it into
that directory. All sources come from the Go module registry; the requirements are those of
upstream's own go.mod, with its staging modules (`k8s.io/api`...) replaced by their published
versions. The first build of a version takes about ten minutes on two cores.
"""

import dataclasses
import fcntl
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

VERSION: Final = "v1.36.3"
_KUBERNETES: Final = "k8s.io/kubernetes"
_VERSION_PACKAGE: Final = "k8s.io/component-base/version"
_STAGING: Final = re.compile(r"=> \./staging/src/(\S+)")


class NoBinary(Exception):
    """A program is neither installed nor can it be built here."""


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A program, the Go package of its `main`, and the variable that names a built one.

    `source` is a folder beside this module: a package of our own.
    """

    name: str
    package: str
    variable: str
    source: str = ""

    def find(self, version: str = VERSION) -> Path:
        """Return the path of the program, after a build if there is none yet.

        Raises NoBinary without Go or without the modules, RuntimeError if the build fails.
        """
        if version == VERSION and (given := os.environ.get(self.variable)):
            if not os.access(given, os.X_OK):
                raise NoBinary(f"${self.variable}: {given} is not a program")
            return Path(given).resolve()
        directory = _cache_directory() / version
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / self.name
        with (directory / "lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists() or path.stat().st_mtime < self._changed_at():
                self._build(path, version)
        return path

    def _changed_at(self) -> float:
        own = (Path(__file__).parent / self.source).iterdir() if self.source else ()
        return max((file.stat().st_mtime for file in own), default=0.0)

    def _build(self, path: Path, version: str) -> None:
        go = shutil.which("go")
        if go is None:
            raise NoBinary(f"no {self.name}: set ${self.variable}, or install Go to build it")
        module = path.parent / "module"
        _write_module(go, module, version)
        if self.source:
            source = Path(__file__).parent / self.source
            shutil.copytree(source, module / self.source, dirs_exist_ok=True)
        listed = _run(module, go, "list", "-mod=mod", "-deps", self.package)
        if listed.returncode != 0:
            raise NoBinary(f"no modules to build {self.name}: {listed.stderr[-300:]}")
        major, minor, _ = version.removeprefix("v").split(".")
        names = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        flags = " ".join(f"-X {_VERSION_PACKAGE}.{name}={names[name]}" for name in names)
        unfinished = path.with_suffix(".unfinished")
        options = ("-mod=mod", "-buildvcs=false", "-ldflags", f"-s -w {flags}")
        built = _run(module, go, "build", *options, "-o", str(unfinished), self.package)
        if built.returncode != 0:
            raise RuntimeError(f"go build {self.package}: {built.stderr}")
        unfinished.rename(path)


ETCD: Final = Program("etcd", "go.etcd.io/etcd/server/v3", "ETCD")
KUBE_APISERVER: Final = Program(
    "kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "KUBE_APISERVER"
)
KUBE_CONTROLLER_MANAGER: Final = Program(
    "kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "KUBE_CONTROLLER_MANAGER",
)
KUBE_SCHEDULER: Final = Program(
    "kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", "KUBE_SCHEDULER"
)
#: Measures kube-scheduler's cycles.
UPSTREAM_CYCLE: Final = Program(
    "upstream-cycle", "./upstream_cycle", "UPSTREAM_CYCLE", source="upstream_cycle"
)
KUBECTL: Final = Program("kubectl", "k8s.io/kubernetes/cmd/kubectl", "KUBECTL")


def _write_module(go: str, module: Path, version: str) -> None:
    """Write a module that requires what a version of Kubernetes requires, and that version."""
    module.mkdir(exist_ok=True)
    found = _run(module, go, "mod", "download", "-json", f"{_KUBERNETES}@{version}")
    if found.returncode != 0:
        raise NoBinary(f"no {_KUBERNETES} {version}: {(found.stderr or found.stdout)[-300:]}")
    upstream = Path(json.loads(found.stdout)["Dir"])
    text = (upstream / "go.mod").read_text(encoding="utf-8")
    text = text.replace(f"module {_KUBERNETES}\n", "module kubesched.test/upstream\n")
    text = _STAGING.sub(rf"=> \1 {version.replace('v1.', 'v0.', 1)}", text)
    text += f"\nrequire {_KUBERNETES} {version}\n"
    (module / "go.mod").write_text(text, encoding="utf-8")
    shutil.copyfile(upstream / "go.sum", module / "go.sum")
    (module / "go.sum").chmod(0o644)


def _run(module: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=module, capture_output=True, encoding="utf-8", check=False)


def _cache_directory() -> Path:
    if given := os.environ.get("KUBESCHED_BINARIES"):
        return Path(given)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "kubesched"
