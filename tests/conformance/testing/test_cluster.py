"""`Cluster`: a server, a scheduler, steps and expectations as method calls."""

import asyncio
import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

import conformance
from conformance.errors import InputError, RequestFailed, TargetError
from conformance.targets.target import TargetOptions
from conformance.testing import Cluster, Pod

from .plugins import NotOnNodeA


def test_pods_are_bound_and_time_passes_on_request() -> None:
    with Cluster() as cluster:
        cluster.node("n1", cpu=4).node("n2", cpu=8)
        cluster.pod("web", cpu=6).bound_to("n2", attempts=1)
        cluster.pod("big", cpu=9).unschedulable(message_contains="2 Insufficient cpu")
        cluster.node("n3", cpu=16).advance("10s").expect(pod="big", bound_to="n3", attempts=2)
        assert cluster.placements() == {"web": "n2", "big": "n3"}


def test_several_pods_in_other_namespaces() -> None:
    with Cluster() as cluster:
        cluster.steps({"create": [{"namespace": "team"}]}).node("n", pods=2)
        pod = cluster.pod("p", namespace="team").bound_to("n")
        cluster.pod("q", count=2)
        cluster.expect(pods=["q-0", "q-1"], bound_count=1)
        assert (pod.name, pod.node_name) == ("team/p", "n")
        assert cluster.placements()["team/p"] == "n"


def test_an_unmet_expectation_shows_the_pod_its_events_and_the_log() -> None:
    with Cluster() as cluster:
        pod = cluster.node("n1", cpu=4).pod("p", cpu=8)
        with pytest.raises(AssertionError) as failed:
            pod.bound_to("n1")
        lines = str(failed.value).splitlines()
        assert lines[0] == "pod p: expected on n1, is not bound"
        assert any("Warning FailedScheduling" in line for line in lines)
        assert any("story of pod default/p" in line for line in lines)
        assert any("Starting to schedule" in line for line in lines)
        # The cluster goes on.
        cluster.patch({"status": {"allocatable": {"cpu": "8"}}}, node="n1", subresource="status")
        cluster.advance("10s").expect(pod="p", bound_to="n1")


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ({"foo": 1}, r"steps\[0\]: unknown field foo; expected advance, answer"),
        ({"expect": {"pod": "p", "bound": "a"}}, "unknown field bound; did you mean bound_to"),
        ({"inject": [{"verb": "create"}]}, "unknown field verb here; expected name, match, when, "),
        (
            {"inject": [{"reset": {}, "match": {"pod": "p"}}]},
            r"faults\[0\].match: unknown field pod.*; expected verb",
        ),
        ({"create": [{"node": {"name": "n", "cpus": 1}}]}, "unknown field cpus; did you mean cpu"),
    ],
)
def test_arguments_are_those_of_a_case(step: dict[str, object], error: str) -> None:
    with Cluster() as cluster, pytest.raises(InputError, match=error):
        cluster.steps(step)


def test_the_event_that_brought_a_pod_back_is_checked() -> None:
    with Cluster() as cluster:
        cluster.node("n", cpu=4).pod("p", cpu=8).not_bound()
        cluster.node("big", cpu=16).advance("10s")
        cluster.expect(pod="p", requeued_by="NodeAdd", bound_to="big")


def test_a_step_that_the_server_refuses_is_an_error() -> None:
    with Cluster() as cluster:
        cluster.node("n")
        with pytest.raises(RequestFailed, match='409 nodes "n" already exists'):
            cluster.node("n")


def test_configuration_and_gates_reach_the_scheduler() -> None:
    config = {"profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "NodeName"}]}}}]}
    unknown = {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "Foo"}]}}}]}
    hint = "did not start: .*; a plugin of your own is loaded by --plugin MODULE:Foo"
    with pytest.raises(TargetError, match=hint), Cluster(config=unknown):
        pass
    with Cluster(config=config, gates={"GenericWorkload": True}) as cluster:
        cluster.node("n").pod("p").bound_to("n")


def test_a_plugin_is_a_class_or_a_reference() -> None:
    for plugin in (NotOnNodeA, "tests.conformance.testing.plugins:NotOnNodeA"):
        with Cluster(plugins=[plugin]) as cluster:
            cluster.node("a").node("b")
            cluster.pod("p", count=3)
            cluster.expect(pods=["p-0", "p-1", "p-2"], bound_to="b")


def test_the_pages_table_has_each_method() -> None:
    page = (Path(conformance.__file__).parent / "README.md").read_text(encoding="utf-8")
    table = page.partition("| method | |")[2].partition("\n\n")[0]
    rows = table.splitlines()
    for owner, of_owner in ((Cluster, rows), (Pod, [row for row in rows if "`Pod`:" in row])):
        public = {name for name in vars(owner) if not name.startswith("_")}
        named = set(re.findall(r"\b(\w+)\b", "\n".join(of_owner)))
        assert public <= named, owner


def test_a_class_among_the_options_of_a_target_is_refused() -> None:
    text = 'expected texts "module:Class", got a class; write "tests.conformance.testing.plugins:'
    with pytest.raises(TypeError, match=text):
        TargetOptions(plugins=(NotOnNodeA,))  # type: ignore[arg-type] # the mistake


def test_other_clients_use_its_kubeconfig() -> None:
    with Cluster() as cluster:
        cluster.node("n")
        config = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
        url = config["clusters"][0]["cluster"]["server"]
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        request = urllib.request.Request(
            f"{url}/api/v1/namespaces/default/pods",
            data=json.dumps(pod).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request):
            pass
        cluster.settle()
        assert cluster.placements() == {"p": "n"}
        cluster.restart().delete(pod="p").expect(pod="p", deleted=True)


def test_a_scheduler_that_fails_ends_the_test() -> None:
    target = TargetOptions(in_process="tests.conformance.schedulers:fails_when_stopped")
    with pytest.raises(TargetError, match="failed: "), Cluster(target=target) as cluster:
        cluster.node("n")


def test_objects_of_the_api_are_created_and_a_pod_has_its_lines() -> None:
    metadata = {"name": "p", "namespace": "default"}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    with Cluster() as cluster:
        cluster.node("a").node("b")
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        pod = Pod(cluster, "p").bound_to_one_of("a", "b")
        with pytest.raises(AssertionError, match="pod p: expected on one of c, d"):
            pod.bound_to_one_of("c", "d")
        assert pod.lines()[0] == f"pod p is Pending, on node {pod.node_name}"


def test_a_step_that_never_ends_is_an_error() -> None:
    with (
        Cluster(timeout_seconds=0.05) as cluster,
        pytest.raises(TargetError, match=r"still running after 0\.05s"),
    ):
        cluster._call(asyncio.Event().wait())


def test_gates_of_a_target_that_has_none_are_refused() -> None:
    target = TargetOptions(in_process="tests.conformance.schedulers:binds_all_to_a")
    cluster = Cluster(target=target, gates={"Some": True})
    with pytest.raises(InputError, match="needs feature gates"):
        cluster.__enter__()


def test_equal_seeds_give_equal_runs() -> None:
    def nodes(seed: int) -> dict[str, str]:
        with Cluster(seed=seed) as cluster:
            cluster.node("n", count=20).pod("p", count=5)
            return cluster.placements()

    assert nodes(1) == nodes(1)
    assert nodes(1) != nodes(2)


def test_it_is_used_inside_with() -> None:
    with pytest.raises(RuntimeError, match="inside `with`"):
        Cluster().node("n")


def test_the_example_of_the_page_passes() -> None:
    page = Path(conformance.__file__).with_name("README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"<!-- A test runs this example. -->\n```python\n(.*?)```", page, re.S)
    namespace: dict[str, Any] = {}
    exec(example, namespace)  # noqa: S102 - the README's example
    namespace["test_a_pod_fits_on_some_node_or_on_none"]()
