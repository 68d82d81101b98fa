"""`kubesched-explain` as a person or a script calls it."""

import io
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.config import default_config
from scheduler.explain.cli import main
from scheduler.explain.text import TextPrinter
from scheduler.explain.world import World
from scheduler.plugins import SCHEME
from scheduler.reports.build import pod_report
from scheduler.reports.decision import result_of
from scheduler.testing import make_node, make_pod

CLUSTER = """\
apiVersion: v1
kind: List
items:
- kind: Node
  metadata: {name: small}
  status: {allocatable: {cpu: "1", memory: 1Gi, pods: "10"}}
- kind: Node
  metadata: {name: tainted}
  spec: {taints: [{key: dedicated, value: a, effect: NoSchedule}]}
  status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10"}}
- kind: Node
  metadata: {name: large}
  status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10"}}
---
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
"""


def explain(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=stdin)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER, encoding="utf-8")
    return path


def _question() -> str:
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "1"}}}
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}}
    return json.dumps({"name": "s", "objects": [node], "pods": [pod]})


def test_the_table_names_who_rejected_each_node_and_who_won(manifest: Path) -> None:
    result = explain("--manifests", str(manifest))
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "default/web scheduled on large, 1 of 3 nodes feasible" in lines
    assert "1 NodeResourcesFit Insufficient cpu cannot help small" in lines
    assert "1 TaintToleration node(s) had untolerated taint(s) cannot help tainted" in lines
    assert any(line.startswith("large <- winner") for line in lines)


def test_only_the_pods_asked_for_are_shown(manifest: Path) -> None:
    assert "default/web" in explain("--manifests", str(manifest), "--pod", "default/web").output
    missing = explain("--manifests", str(manifest), "--pod", "default/nobody")
    assert missing.exit_code == 1
    assert missing.stderr == "kubesched-explain: no such pod: default/nobody\n"


def _large(tmp_path: Path, *, nodes: int) -> Path:
    """A cluster of equal free nodes, as many full ones, and a pod with a node of each sort."""

    def node(name: str) -> dict[str, object]:
        amounts = {"cpu": "8", "memory": "8Gi", "pods": "10"}
        status = {"allocatable": amounts}
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}

    def pod(name: str, cpu: str, node_name: str = "") -> dict[str, object]:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        spec: dict[str, object] = {"containers": [container]}
        if node_name:
            spec["nodeName"] = node_name
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    items = [node(f"free-{i:04}") for i in range(nodes)]
    items += [node(f"full-{i:04}") for i in range(nodes)]
    items += [pod(f"big-{i:04}", "8", f"full-{i:04}") for i in range(nodes)]
    items += [pod("fits", "7", "free-0003"), pod("web", "7")]
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}), "utf-8")
    return path


def test_long_lists_are_cut_to_ten_nodes(tmp_path: Path) -> None:
    path = str(_large(tmp_path, nodes=20))
    default = explain("--manifests", path).output
    assert default.count("\nfree-") == 10
    assert "and 9 more (--nodes-max N|all)" in default
    assert explain("--manifests", path, "--nodes-max", "3").output.count("\nfree-") == 3
    everything = explain("--manifests", path, "--nodes-max", "all").output
    assert everything.count("\nfree-") == 19
    assert "more" not in everything
    assert "full-0019" in everything


@pytest.mark.parametrize("number", ["0", "-1", "some"])
def test_the_number_of_nodes_is_checked(number: str) -> None:
    assert explain("--master", "x", "--nodes-max", number).exit_code == 2


def test_rejections_are_grouped_by_reason(tmp_path: Path) -> None:
    output = explain("--manifests", str(_large(tmp_path, nodes=20))).output
    (group,) = [line for line in output.splitlines() if "Insufficient cpu" in line]
    assert " ".join(group.split()) == (
        "21 NodeResourcesFit Insufficient cpu may help free-0003, full-0000, full-0001, ..."
    )


def test_the_answer_comes_first_with_its_tie(tmp_path: Path) -> None:
    output = explain("--manifests", str(_large(tmp_path, nodes=20))).output
    first = output.splitlines()[0]
    assert re.fullmatch(
        r"default/web  scheduled on free-0000, one of 19 with \d+, drawn by chance; "
        r"19 of 40 nodes feasible",
        first,
    )


@pytest.mark.parametrize("pod", ["web", "fits"])
@pytest.mark.parametrize(
    ("percentage", "ending"),
    [
        (0, "; the scheduler looks at 144 of 300"),
        (40, "; the scheduler looks at 120 of 300"),
        (100, " of 300 nodes feasible"),
    ],
)
def test_the_number_of_nodes_that_the_scheduler_looks_at_is_named(
    tmp_path: Path, pod: str, percentage: int, ending: str
) -> None:
    config = tmp_path / "config.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    config.write_text(f"{head}percentageOfNodesToScore: {percentage}\n", encoding="utf-8")
    items = [
        {"kind": "Node", "metadata": {"name": f"n{i:03}"}, "status": {"allocatable": {"pods": "9"}}}
        for i in range(300)
    ]
    container = {"containers": [{"name": "c"}]}
    items += [
        {"kind": "Pod", "metadata": {"name": "web"}, "spec": container},
        {"kind": "Pod", "metadata": {"name": "fits"}, "spec": {**container, "nodeName": "n001"}},
    ]
    dump = json.dumps({"kind": "List", "items": items})
    result = explain("--manifests", "-", "--config", str(config), "--pod", pod, stdin=dump)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].endswith(ending)


def test_an_unschedulable_pod_has_been_tried_on_all_nodes() -> None:
    nodes = [make_node(f"n{i}") for i in range(300)]
    world = World(default_config(SCHEME), nodes=nodes, pods=[])
    decision = result_of(world.decide(make_pod("web", requests={"cpu": "100"})))
    report = pod_report(decision, world.profiles["default-scheduler"], world.snapshot)
    assert report.answer.startswith("unschedulable: 0/300 nodes are available")
    assert "looks at" not in report.answer


def test_lines_are_not_wrapped_in_a_pipe(tmp_path: Path) -> None:
    output = explain("--manifests", str(_large(tmp_path, nodes=120)), "--nodes-max", "all").output
    (group,) = [line for line in output.splitlines() if "Insufficient cpu" in line]
    assert group.endswith("full-0119")
    assert not any(line.endswith(" ") for line in output.splitlines())


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours_and_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm", "COLUMNS": "40"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    world = World(default_config(SCHEME), nodes=[make_node("n")], pods=[])
    decision = result_of(world.decide(make_pod("web", requests={"cpu": "100"})))
    report = pod_report(decision, world.profiles["default-scheduler"], world.snapshot)
    out = _Terminal()
    TextPrinter(out, nodes_max=10).pod(report)
    first = out.getvalue().splitlines()[0]
    assert "\x1b[1;31munschedulable\x1b[0m" in first
    assert first.endswith("1 Insufficient cpu.")


def test_a_narrow_terminal_cuts_no_name_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm", "COLUMNS": "40", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    name = "ip-10-0-0-1.eu-central-1.compute.internal.example.com"
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    for taints in ([taint], []):
        world = World(default_config(SCHEME), nodes=[make_node(name, taints=taints)], pods=[])
        decision = result_of(world.decide(make_pod("web")))
        report = pod_report(decision, world.profiles["default-scheduler"], world.snapshot)
        out = _Terminal()
        TextPrinter(out, nodes_max=10).pod(report)
        tables = out.getvalue().split("\n", 1)[1]
        assert name in re.sub(r"\x1b\[[0-9;]*m", "", tables)


def test_a_pod_that_has_a_node_is_decided_again_without_itself(tmp_path: Path) -> None:
    path = str(_large(tmp_path, nodes=20))
    (first, *lines) = explain("--manifests", path, "--pod", "fits").output.splitlines()
    assert re.fullmatch(
        r"default/fits  is on free-0003, and may be scheduled there again: "
        r"one of 20 with \d+, drawn by chance; 20 of 40 nodes feasible",
        first,
    )
    assert any(line.startswith("free-0003 <- has the pod") for line in lines)
    assert not any(line.startswith("default/web") for line in lines)


@pytest.mark.parametrize(
    ("pods", "answer"),
    [
        (
            [("web", "2", "large"), ("other", "6", "large")],
            "is on large, and would be scheduled there again: the best with ",
        ),
        (
            [("web", "2", "large"), ("other", "7", "large")],
            "is on large, where it would not fit now: Insufficient cpu (NodeResourcesFit); "
            "decided again without it: unschedulable: 0/3 nodes are available: ",
        ),
        (
            [("web", "1", "small")],
            "is on small, number 2 of 2 feasible nodes with ",
        ),
    ],
)
def test_the_node_of_a_pod_is_compared_with_the_choice_now(
    tmp_path: Path, pods: list[tuple[str, str, str]], answer: str
) -> None:
    documents = [CLUSTER.partition("---")[0].replace('"1", memory: 1Gi', '"1", memory: 9Gi')]
    documents += [
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{nodeName: {node}, "
        f'containers: [{{name: c, resources: {{requests: {{cpu: "{cpu}"}}}}}}]}}\n'
        for name, cpu, node in pods
    ]
    path = tmp_path / "cluster.yaml"
    path.write_text("---\n".join(documents), encoding="utf-8")
    output = explain("--manifests", str(path), "--pod", "web").output
    assert output.startswith(f"default/web  {answer}"), output


def test_a_pod_is_found_by_its_name_alone(manifest: Path) -> None:
    assert "default/web" in explain("--manifests", str(manifest), "--pod", "web").output


def test_a_pod_in_another_namespace_is_proposed(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER.replace("{name: web}", "{name: web, namespace: shop}"), "utf-8")
    result = explain("--manifests", str(path), "--pod", "web")
    assert result.stderr == "kubesched-explain: no such pod: default/web; there is shop/web\n"


def test_a_cluster_without_waiting_pods_has_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER.partition("---")[0], "utf-8")
    result = explain("--manifests", str(path))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no pod waits for a node; --pod explains a pod that has one\n"


def test_questions_and_answers_are_lines_of_json() -> None:
    result = explain("batch", "-", stdin=_question() + "\n\n")
    assert result.exit_code == 0
    (line,) = result.stdout.splitlines()
    assert json.loads(line)["pods"][0]["choice"]["node"] == "n"


def test_a_plugin_of_ones_own_takes_part(manifest: Path) -> None:
    plugin = "tests.explain.only_small:OnlySmall"
    result = explain("--manifests", str(manifest), "--plugin", plugin)
    assert "default/web  unschedulable: 0/3 nodes are available:" in result.output
    assert "OnlySmall" in result.output


def test_a_name_that_yaml_reads_as_a_truth_value_gets_a_hint(manifest: Path) -> None:
    manifest.write_text(manifest.read_text("utf-8").replace("name: web", "name: y", 1), "utf-8")
    result = explain("--manifests", str(manifest))
    assert "got `bool` - at `$.metadata.name`: quote it" in result.stderr


OBJECTS = """---
{apiVersion: v1, kind: ConfigMap, metadata: {name: limits}, data: {pods: "3"}}
---
{apiVersion: example.com/v1, kind: Quota, metadata: {name: q, namespace: default}, spec: {pods: 5}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s}}
"""


def test_objects_that_a_plugin_reads_are_kept_and_others_are_named(manifest: Path) -> None:
    manifest.write_text(manifest.read_text("utf-8") + OBJECTS, "utf-8")
    plugin = "tests.explain.reads_quota:ReadsQuota"
    result = explain("--manifests", str(manifest), "--plugin", plugin)
    assert "limit 3, quotas [5]" in result.stdout
    assert result.stderr == f"kubesched-explain: {manifest}: no decision depends on 1 Secret\n"
    result = explain("--manifests", str(manifest))
    assert "no decision depends on 1 ConfigMap, 1 Quota, 1 Secret" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--manifests", "/nowhere"], "kubesched-explain: /nowhere: No such file or directory"),
        (
            ["--manifests", __file__, "--config", "/nowhere"],
            "kubesched-explain: open /nowhere: no such file or directory",
        ),
        (
            ["--master", "http://127.0.0.1:1"],
            'kubesched-explain: GET "http://127.0.0.1:1/api/v1/nodes',
        ),
        (
            ["batch", "-", "--plugin", "nowhere:Nobody"],
            'kubesched-explain: plugin "nowhere:Nobody": cannot import',
        ),
    ],
)
def test_an_error_is_one_line(arguments: list[str], complaint: str) -> None:
    result = explain(*arguments, stdin=_question())
    assert result.exit_code == 1
    assert result.stderr.startswith(complaint)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: [", "line 2: while parsing a flow node: did not find expected node content"),
        ("- 1", "document 1: expected an object, got list"),
        (
            "kind: Node\nstatus: {allocatable: {cpu: many}}",
            'document 1: Node: cpu: "many": quantities must match the regular expression',
        ),
        ("kind: Node\nmetadata: {name: [1]}", "document 1: Node: Expected `str`, got `array`"),
    ],
)
def test_a_broken_manifest_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text, encoding="utf-8")
    result = explain("--manifests", str(path))
    assert result.exit_code == 1
    assert str(path) in result.stderr
    assert complaint in result.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["--manifests", "-", "--master", "x"], ["-o", "jsonl", "--master", "x"]]
)
def test_the_cluster_has_exactly_one_source(arguments: list[str]) -> None:
    assert explain(*arguments).exit_code == 2


def test_pods_is_the_command_without_a_name(manifest: Path) -> None:
    named = explain("pods", "--manifests", str(manifest), "--pod", "web")
    assert named.output == explain("--manifests", str(manifest), "--pod", "web").output
    assert "scheduled on large" in named.output


def test_the_help_lists_the_commands() -> None:
    lines = explain("--help").output.splitlines()
    listed = lines[lines.index("Commands:") + 1 :]
    assert [line.split()[0] for line in listed] == ["batch", "metrics", "pods", "story"]


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("st", "plain,story"), ("--man", "plain,--manifests"), ("story --ser", "plain,--server")],
)
def test_commands_and_the_options_of_pods_are_completed(typed: str, completed: str) -> None:
    words = f"kubesched-explain {typed}"
    environ = {
        "_KUBESCHED_EXPLAIN_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    result = CliRunner().invoke(main, env=environ, prog_name="kubesched-explain")
    assert result.output.splitlines() == [completed]
