"""The flags with which distributions start kube-scheduler: ours takes them unchanged.

Each command line is read, its configuration is built, and its port serves, in this process. Files
that a flag names are made under a folder of the test. kubeadm's command line is also started as a
process (`test_deploy.py`).
"""

import contextlib
import dataclasses
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest

from fakeapi import FakeApiServer, Security
from scheduler import run
from scheduler.clock import SystemClock
from scheduler.config import default_config
from scheduler.flags.options import parse_flags
from scheduler.plugins import SCHEME
from scheduler.serving.serve import serve_securely
from tests.client import tls_directory
from tests.config.test_written import own_logging  # noqa: F401 - a fixture
from tests.integration.test_deploy import document
from tests.serving.served import Served

pytestmark = pytest.mark.slow

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Distribution(NamedTuple):
    """The source of the flags (repository, path, function), the flags, and the configuration."""

    source: str
    flags: str
    config: str = "clientConnection: {kubeconfig: KUBECONFIG}\n"


DISTRIBUTIONS = {
    "kubeadm": Distribution(
        "kubernetes/kubernetes v1.36.3 cmd/kubeadm/app/phases/controlplane/manifests.go "
        "getSchedulerCommand",
        """
        --authentication-kubeconfig=/etc/kubernetes/scheduler.conf
        --authorization-kubeconfig=/etc/kubernetes/scheduler.conf
        --bind-address=127.0.0.1
        --kubeconfig=/etc/kubernetes/scheduler.conf
        --leader-elect=true
        """,
    ),
    "kops": Distribution(
        "kubernetes/kops nodeup/pkg/model/tests/golden/minimal/tasks-kube-scheduler.yaml",
        """
        --authentication-kubeconfig=/var/lib/kube-scheduler/kubeconfig
        --authorization-kubeconfig=/var/lib/kube-scheduler/kubeconfig
        --config=/var/lib/kube-scheduler/config.yaml
        --leader-elect=true
        --tls-cert-file=/srv/kubernetes/kube-scheduler/server.crt
        --tls-private-key-file=/srv/kubernetes/kube-scheduler/server.key
        --v=2
        """,
    ),
    "talos": Distribution(
        "siderolabs/talos internal/app/machined/pkg/controllers/k8s/control_plane_static_pod.go "
        "manageScheduler",
        """
        --config=/system/config/kubernetes/kube-scheduler/scheduler-config.yaml
        --authentication-tolerate-lookup-failure=false
        --authentication-kubeconfig=/system/secrets/kubernetes/kube-scheduler/kubeconfig
        --authorization-kubeconfig=/system/secrets/kubernetes/kube-scheduler/kubeconfig
        --bind-address=127.0.0.1
        --leader-elect=true
        --profiling=false
        --tls-min-version=VersionTLS13
        """,
    ),
    "gardener": Distribution(
        "gardener/gardener pkg/component/kubernetes/scheduler/scheduler.go computeCommand, "
        "componentConfigTmpl with the profile bin-packing",
        """
        --config=/var/lib/kube-scheduler-config/config.yaml
        --authentication-kubeconfig=/var/run/secrets/gardener.cloud/shoot/kubeconfig
        --authorization-kubeconfig=/var/run/secrets/gardener.cloud/shoot/kubeconfig
        --client-ca-file=/var/lib/kube-scheduler-client-ca/bundle.crt
        --tls-cert-file=/var/lib/kube-scheduler-server/kube-scheduler-server.crt
        --tls-private-key-file=/var/lib/kube-scheduler-server/kube-scheduler-server.key
        --secure-port=10259
        --v=2
        """,
        """
        clientConnection: {kubeconfig: KUBECONFIG}
        leaderElection: {leaderElect: true}
        profiles:
        - schedulerName: default-scheduler
        - schedulerName: bin-packing-scheduler
          pluginConfig:
          - name: NodeResourcesFit
            args: {scoringStrategy: {type: MostAllocated}}
          plugins:
            score: {disabled: [{name: NodeResourcesBalancedAllocation}]}
        """,
    ),
    "openshift": Distribution(
        "openshift/cluster-kube-scheduler-operator bindata/assets/kube-scheduler/pod.yaml",
        """
        --config=/etc/kubernetes/static-pod-resources/configmaps/config/config.yaml
        --cert-dir=/var/run/kubernetes
        --authentication-kubeconfig=/etc/kubernetes/static-pod-resources/configmaps/scheduler-kubeconfig/kubeconfig
        --authorization-kubeconfig=/etc/kubernetes/static-pod-resources/configmaps/scheduler-kubeconfig/kubeconfig
        """,
    ),
    "hypershift": Distribution(
        "openshift/hypershift control-plane-operator/controllers/hostedcontrolplane/v2/assets/"
        "kube-scheduler/deployment.yaml",
        """
        --config=/etc/kubernetes/config/config.json
        --cert-dir=/var/run/kubernetes
        --secure-port=10259
        --authentication-kubeconfig=/etc/kubernetes/kubeconfig/kubeconfig
        --authorization-kubeconfig=/etc/kubernetes/kubeconfig/kubeconfig
        -v=2
        """,
    ),
    "microk8s": Distribution(
        "canonical/microk8s microk8s-resources/default-args/kube-scheduler",
        """
        --kubeconfig=/var/snap/microk8s/current/credentials/scheduler.config
        --leader-elect-lease-duration=60s
        --leader-elect-renew-deadline=30s
        --profiling=false
        """,
    ),
}


@pytest.fixture
async def kubeconfig() -> AsyncIterator[str]:
    """The identity of kube-scheduler on a server with RBAC."""
    async with FakeApiServer(security=Security(tls=True, authorization_mode="RBAC")) as server:
        yield server.kubeconfig_for("system:kube-scheduler")


def _mounted(distribution: Distribution, root: Path, kubeconfig: str) -> list[str]:
    """Make the files that the flags name, below `root`; return the flags with these paths."""
    flags = []
    for flag in distribution.flags.split():
        name, _, value = flag.partition("=")
        if not value.startswith("/"):
            flags.append(flag)
            continue
        path = root / value.removeprefix("/")
        flags.append(f"{name}={path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("kubeconfig"):
            path.write_text(kubeconfig, encoding="utf-8")
        elif name == "--config":
            config = re.sub("^        ", "", distribution.config, flags=re.MULTILINE)
            own = root / "kubeconfig"
            own.write_text(kubeconfig, encoding="utf-8")
            path.write_text(HEADER + config.replace("KUBECONFIG", str(own)), encoding="utf-8")
        elif name != "--cert-dir":
            shutil.copy(
                tls_directory() / f"client.{'key' if path.suffix == '.key' else 'pem'}", path
            )
    return flags


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("name", DISTRIBUTIONS)
async def test_the_flags_of_a_distribution_start_ours(
    name: str, tmp_path: Path, kubeconfig: str
) -> None:
    flags = _mounted(DISTRIBUTIONS[name], tmp_path, kubeconfig)
    written = tmp_path / "written.yaml"
    run(args=[*flags, f"--write-config-to={written}"])
    assert f"kubeconfig: {tmp_path}" in written.read_text(encoding="utf-8")
    options = parse_flags(flags, command="kubesched")
    assert options.serving.secure_port == 10259
    # Many tests run on one machine: a free port.
    serving = dataclasses.replace(options.serving, secure_port=None)
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            serve_securely(
                serving,
                default_config(SCHEME),
                Served(),
                clock=SystemClock(),
                is_shutting_down=lambda: False,
                gates=options.gates,
                flags=options.values.texts(),
            )
        )
        session = await stack.enter_async_context(aiohttp.ClientSession())
        async with session.get(f"{server.url}/healthz", ssl=False) as answer:
            assert answer.status == 200


def test_the_static_pod_has_kubeadms_flags() -> None:
    [container] = document("kube-scheduler.yaml", "Pod")["spec"]["containers"]
    assert container["command"] == ["kubesched", *DISTRIBUTIONS["kubeadm"].flags.split()]
