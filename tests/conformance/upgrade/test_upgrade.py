"""`kubesched-conformance upgrade`: decisions that change, and settings that stop working."""

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.upgrade.cli import upgrade
from conformance.upgrade.fields import refused_fields, remove_field
from conformance.upgrade.settings import Settings, refusals
from scheduler.explain.cli import main as explain
from scheduler.simulate.cli import main as simulate

from ...explain.test_compare_versions import CLUSTER
from ...explain.test_gates import CLUSTER as CLUSTER_OF_A_GATE
from ...explain.test_gates import GATES
from ...simulate.study.small_trace import write_small_trace
from ...sources import ROOT
from ...thoroughness import thorough_only

README = ROOT / "conformance" / "README.md"
RULES = 'expr: rate(scheduler_resourceclaim_creates_total[5m]) + scheduler_pending_pods{queue="x"}'
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def command() -> list[str]:
    """Return the arguments of the command in the README."""
    _, begin, rest = README.read_text(encoding="utf-8").partition("kubesched-conformance upgrade")
    assert begin
    return shlex.split(rest.partition("```")[0])


@thorough_only  # tests/integration/test_readme.py runs such a command
@pytest.mark.slow
def test_the_report_has_pods_and_settings_with_their_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("dump", CLUSTER), ("rules", RULES), ("scheduler", CONFIG)):
        Path(f"{name}.yaml").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(upgrade, [*command(), "--json", "report.json"])
    assert result.exit_code == 1, result.output
    report = json.loads(Path("report.json").read_bytes())
    assert report["pods"] == 2
    (change,) = report["changes"]
    assert (change["pods"], change["kind"]) == (["default/web"], "node")
    assert change["rows"] == [
        "1.36: Declared features",
        "1.37: Declared features",
        "1.36: Balance of resources",
    ]
    assert {each["setting"]: each["version"] for each in report["refusals"]} == {
        "--feature-gates=GenericWorkload=true": "1.37",
        "--feature-gates=GangScheduling=true": "1.37",
        "metric scheduler_resourceclaim_creates_total": "1.37",
    }
    assert "2 pods: 1 on another node" in result.output
    assert "GangScheduling" in Path("upgrade.html").read_text(encoding="utf-8")


def test_the_pods_of_a_trace_are_decided_as_those_of_its_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided: list[str] = []

    def run(module: str, *arguments: str) -> bytes:
        if module == "scheduler.simulate":
            result = CliRunner().invoke(simulate, arguments)
            assert result.exit_code == 0, result.output
            return b""
        dump = json.loads(Path(arguments[-1]).read_bytes())
        decided.extend(item["metadata"]["name"] for item in dump["items"])
        return b'{"versions": []}'

    monkeypatch.setattr("conformance.upgrade.decisions._run", run)
    write_small_trace(tmp_path)
    nodes = str(tmp_path / "openb_node_list_gpu_node.csv")
    pods = str(tmp_path / "openb_pod_list_small.csv")
    arguments = ["--from", "1.35", "--to", "1.37", "--openb", nodes, pods, "--limit", "2"]
    result = CliRunner().invoke(upgrade, arguments)
    assert result.exit_code == 0, result.output
    assert decided == [*(f"node-{i}" for i in range(6)), "pod-0", "pod-1"]


@pytest.mark.parametrize(
    ("versions", "flag", "text", "counts"),
    [
        # Version 1.34 has no such gate, and the pod fits with the gate only.
        (("1.34", "1.36"), "=".join(GATES), CLUSTER_OF_A_GATE, "1 pod: 1 with another result"),
        (("1.35", "1.36"), "--emulated-version=1.36", CLUSTER, "2 pods: 1 on another node"),
        # The emulated version decides alike.
        (("1.35", "1.36"), "--emulated-version=1.35", CLUSTER, "2 pods: decided as before"),
    ],
)
def test_pods_are_decided_with_the_gates_of_the_command(
    versions: tuple[str, str],
    flag: str,
    text: str,
    counts: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`kubesched-explain` runs in this process; the settings are judged in test_settings.py."""

    def run(_: str, *arguments: str) -> bytes:
        return CliRunner().invoke(explain, arguments).stdout_bytes

    monkeypatch.setattr("conformance.upgrade.decisions._run", run)
    monkeypatch.setattr("conformance.upgrade.cli.refusals", lambda settings, versions: [])
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(text, encoding="utf-8")
    base, version = versions
    arguments = ["--from", base, "--to", version, "--manifests", str(cluster)]
    command = f"kube-scheduler {flag}"
    result = CliRunner().invoke(upgrade, [*arguments, "--scheduler-command", command])
    assert counts in result.output, result.output


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (
            'strict decoding error: unknown field "profiles[0].plugins.placementScore", '
            "decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for "
            'plugin DynamicResources: strict decoding error: unknown field "bindingTimeout"',
            [
                "profiles[0].plugins.placementScore",
                "profiles[0].pluginConfig[0].args.bindingTimeout",
            ],
        ),
        (
            "profiles[0].pluginConfig[0].args.bindingTimeout: Forbidden: feature gate is disabled",
            ["profiles[0].pluginConfig[0].args.bindingTimeout"],
        ),
        ("initializing profiles: Foo is not registered", []),
    ],
)
def test_the_fields_that_a_message_refuses_are_found_and_removed(
    message: str, fields: list[str]
) -> None:
    """The messages are those of kube-scheduler v1.34.4 and v1.35.4."""
    args = {"filterTimeout": "5s", "bindingTimeout": "30s"}
    profile = {"plugins": {"placementScore": {}}, "pluginConfig": [{"args": args}]}
    assert [path for path, _ in refused_fields(message)] == fields
    assert all(remove_field({"profiles": [profile]}, path) for path in fields)
    assert set(args) == {"filterTimeout"} | ({"bindingTimeout"} if not fields else set())


@thorough_only
@pytest.mark.slow
def test_settings_that_no_version_accepted_do_not_stop_working() -> None:
    settings = Settings.of("--no-such-flag=1 --feature-gates=NoSuchGate=true", None, ())
    assert refusals(settings, ("1.36", "1.37")) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--to", "1.35"), "--to: expected another version than 1.35"),
        (("--to", "1.38"), "'1.38' is not one of '1.34', '1.35', '1.36', '1.37'"),
        (("--to", "1.37"), "expected a cluster (--kubeconfig, --manifests, --history, --openb) or"),
        (("--to", "1.37", "--history", "x", "--manifests", "y"), "expected one of --kubeconfig"),
        (("--to", "1.37", "--openb", "n", "p", "--history", "x"), "expected one of --kubeconfig"),
        (("--to", "1.37", "--openb", "/no/such", "/no/pods"), "No such file"),
        (("--to", "1.37", "--metrics", "/no/such"), "--metrics: /no/such: No such file"),
        (("--to", "1.37", "--scheduler-command", "s x"), "expected flags --NAME=VALUE, got 'x'"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], problem: str) -> None:
    result = CliRunner().invoke(upgrade, ["--from", "1.35", *arguments])
    assert result.exit_code == 2
    assert problem in result.output
