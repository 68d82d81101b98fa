import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance import extender as example
from scheduler.api.core import Node
from scheduler.client import NODES, PODS
from scheduler.client.decoding import JsonKeepingDecoder
from scheduler.clock import SystemClock
from scheduler.config import ConfigError
from scheduler.extenders import HTTPExtender, HTTPExtenders
from scheduler.framework.extender import ExtenderError, Victims
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.testing import VirtualClock, make_node, make_pod, snapshot_of
from tests.extenders.running import config_of, running
from tests.upstream.loading import Case, cases, pod

POD = PodInfo(make_pod("web"))
FILTER = {"filterVerb": "filter", "nodeCacheCapable": True}
CERTIFICATE = Path(example.__file__).with_name("extender.pem")


def cluster() -> Snapshot:
    return snapshot_of([make_node("a"), make_node("b")], [make_pod("on-a", node_name="a")])


async def error_of(config: dict[str, Any], answer: Any = None, **options: Any) -> str:
    """Return the text of the error with which a filter call fails."""
    answers = {} if answer is None else {"filter": answer}
    async with running({**FILTER, **config}, answers=answers, **options) as (extender, _):
        with pytest.raises(ExtenderError) as failure:
            await extender.filter(POD, cluster().nodes)
    return str(failure.value)


# Upstream's tables.


@pytest.mark.parametrize("case", cases("extenders", "is_interested"))
def test_is_interested(case: Case) -> None:
    managed = [{"name": name} for name in case["managed"]]
    config = config_of({"urlPrefix": "http://x", "managedResources": managed})
    extender = HTTPExtender(config, clock=SystemClock(), environ={})
    assert extender.is_interested(PodInfo(pod(case["pod"]))) == case["interested"]


@pytest.mark.parametrize("case", cases("extenders", "victims"))
async def test_victims_are_sent_and_read_by_uid(case: Case) -> None:
    pods = {
        node: [make_pod(uid, uid=uid, node_name=node) for uid in uids]
        for node, uids in case["nodes"].items()
    }
    everything = [pod for of_node in pods.values() for pod in of_node]
    snapshot = snapshot_of([make_node(node) for node in pods], everything)
    victims = {
        node: Victims([PodInfo(pod) for pod in of_node], case["victims"][node]["NumPDBViolations"])
        for node, of_node in pods.items()
    }
    config = {"preemptVerb": "preempt", "nodeCacheCapable": True}
    answers = {"preempt": {"json": {"NodeNameToMetaVictims": case["victims"]}}}
    async with running(config, answers=answers) as (extender, server):
        found = await extender.process_preemption(POD, victims, snapshot)
    assert server.received["preempt"]["NodeNameToMetaVictims"] == case["victims"]
    assert {
        node: ([pod.uid for pod in of_node.pods], of_node.num_pdb_violations)
        for node, of_node in found.items()
    } == {
        node: ([pod.uid for pod in of_node.pods], of_node.num_pdb_violations)
        for node, of_node in victims.items()
    }


# Requests and answers.


async def test_whole_objects_are_sent_as_they_came() -> None:
    raw = b'{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","managedFields":[{}]},"x":1}'
    node = JsonKeepingDecoder(NODES).object(raw, url="")
    nodes = snapshot_of([node]).nodes
    raw_pod = raw.replace(b"Node", b"Pod")
    whole_pod = PodInfo(JsonKeepingDecoder(PODS).object(raw_pod, url=""))
    async with running({"filterVerb": "filter"}) as (extender, server):
        result = await extender.filter(whole_pod, nodes)
    assert server.received["filter"] == {
        "Pod": {"metadata": {"name": "a"}, "x": 1},
        "Nodes": {
            "metadata": {},
            "items": [{"metadata": {"name": "a", "managedFields": [{}]}, "x": 1}],
        },
        "NodeNames": None,
    }
    returned: Node = result.nodes[0].node
    assert msgspec.json.decode(returned.json)["x"] == 1
    until_1_35 = JsonKeepingDecoder(replace(PODS, keeps_managed_fields=True))
    assert b"managedFields" in until_1_35.object(raw_pod, url="").json


class _Client:
    """Answers with the nodes that it is sent, some of them changed."""

    async def post(self, verb: str, body: bytes) -> bytes:
        sent = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        return b'{"nodes":%s}' % bytes(sent["Nodes"]).replace(b'"x":1', b'"x":2')


async def test_a_node_that_comes_back_as_it_was_sent_is_not_decoded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoder = JsonKeepingDecoder(NODES)
    raw = (b'{"metadata":{"name":"a"}}', b'{"metadata":{"name":"b"},"x":1}')
    sent = {node.metadata.name: node for node in (decoder.object(r, url="") for r in raw)}
    config = config_of({"urlPrefix": "http://x", "filterVerb": "filter"})
    extender = HTTPExtender(config, clock=SystemClock(), environ={})
    monkeypatch.setattr(extender, "client", _Client())
    result = await extender.filter(POD, snapshot_of(list(sent.values())).nodes)
    returned = {info.node.metadata.name: info.node for info in result.nodes}
    assert returned["a"] is sent["a"]
    assert returned["b"].json == b'{"metadata":{"name":"b"},"x":2}'


async def test_victims_of_an_assumed_pod_have_their_node() -> None:
    raw = b'{"metadata":{"name":"v","namespace":"d","uid":"u"},"spec":{"hostname":"h"}}'
    victim = PodInfo(JsonKeepingDecoder(PODS).object(raw, url="")).assigned_to("a")
    async with running({"preemptVerb": "preempt"}) as (extender, server):
        await extender.process_preemption(
            POD, {"a": Victims([victim], 0)}, snapshot_of([make_node("a")], [victim.pod])
        )
    sent: Any = server.received["preempt"]["NodeNameToVictims"]
    assert sent["a"]["Pods"][0]["spec"] == {"hostname": "h", "nodeName": "a"}


async def test_returned_objects_have_no_pods_and_their_place_in_the_snapshot() -> None:
    snapshot = cluster()
    answers = {"filter": {"accepts": ["b", "a"]}}
    async with running({"filterVerb": "filter"}, answers=answers) as (extender, _):
        nodes = (await extender.filter(POD, snapshot.nodes)).nodes
    assert sorted(nodes.names) == ["a", "b"]
    assert nodes.pod_count.tolist() == [0, 0]
    assert [snapshot.names[row] for row in nodes.base_rows.tolist()] == nodes.names
    assert snapshot.nodes.pod_count.sum() == 1


async def test_scores_of_a_node_that_is_named_twice_are_added() -> None:
    config = {"prioritizeVerb": "prioritize", "weight": 1, "nodeCacheCapable": True}
    listed = [{"Host": "a", "Score": 1}, {"host": "a", "score": 2}, {"Host": "b"}]
    async with running(config, answers={"prioritize": {"json": listed}}) as (extender, _):
        assert await extender.prioritize(POD, cluster().nodes) == {"a": 3, "b": 0}


async def test_a_node_without_meta_victims_has_none() -> None:
    answers = {"preempt": {"json": {"nodeNameToMetaVictims": {"a": None}}}}
    async with running({"preemptVerb": "preempt"}, answers=answers) as (extender, _):
        assert await extender.process_preemption(POD, {}, cluster()) == {"a": Victims([], 0)}


async def test_a_candidate_that_the_snapshot_does_not_have_is_an_error() -> None:
    answers = {"preempt": {"json": {"NodeNameToMetaVictims": {"z": {}}}}}
    async with running({"preemptVerb": "preempt"}, answers=answers) as (extender, _):
        with pytest.raises(ExtenderError, match='nodeinfo not found for node name "z"'):
            await extender.process_preemption(POD, {}, cluster())


async def test_an_object_that_was_not_sent_is_an_error() -> None:
    answer = {"json": {"Nodes": {"items": [{"metadata": {"name": "z"}}]}}}
    text = await error_of({"nodeCacheCapable": False}, answer)
    assert text.endswith('claims a filtered node "z" which is not found in the input node list')


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("", "EOF"),
        ('{"NodeNames": [', "unexpected EOF"),
        ("<html>", "invalid character '<' looking for beginning of value"),
        ("7", "json: cannot unmarshal number into Go value of type v1.ExtenderFilterResult"),
        ('"no"', "json: cannot unmarshal string into Go value of type v1.ExtenderFilterResult"),
        (
            '{"Error":"\\ud83d"} x',
            "json: cannot unmarshal object into Go value of type v1.ExtenderFilterResult",
        ),
        ("[" * 20_000, "exceeded max depth"),
        ('{"a":' * 20_000 + "1" + "}" * 20_000 + " x", "exceeded max depth"),
        ('{"Error": "busy"}', "busy"),
        (
            "1" * 5000 + " x",
            "json: cannot unmarshal number into Go value of type v1.ExtenderFilterResult",
        ),
    ],
)
async def test_an_answer_that_cannot_be_read(body: str, text: str) -> None:
    assert await error_of({}, {"body": body}) == text


@pytest.mark.parametrize("score", ["1.5", '"1"', "1e3"])
async def test_a_score_that_is_no_integer_is_an_error(score: str) -> None:
    kind = "string" if score[0] == '"' else f"number {score}"
    answers = {"prioritize": {"body": f'[{{"Host": "a", "Score": {score}}}]'}}
    config = {"prioritizeVerb": "prioritize", "weight": 1, "nodeCacheCapable": True}
    async with running(config, answers=answers) as (extender, _):
        with pytest.raises(ExtenderError) as failure:
            await extender.prioritize(POD, cluster().nodes)
    text = f"json: cannot unmarshal {kind} into Go value of type int64"
    assert str(failure.value) == text


async def test_an_object_that_is_no_node_is_an_error() -> None:
    answer = {"json": {"Nodes": {"items": [{"metadata": {"name": 3}}]}}}
    assert "name" in await error_of({"nodeCacheCapable": False}, answer)


async def test_a_victim_that_is_not_on_the_node_is_an_error() -> None:
    victims = {"a": {"Pods": [{"UID": "nosuch"}]}}
    answers = {"preempt": {"json": {"NodeNameToMetaVictims": victims}}}
    async with running({"preemptVerb": "preempt"}, answers=answers) as (extender, _):
        with pytest.raises(ExtenderError, match=r"claims to preempt pod \(UID: &\{nosuch\}\)"):
            await extender.process_preemption(POD, {}, cluster())


async def test_a_binding_is_sent_with_the_pods_uid() -> None:
    answers = {"bind": {"json": {"Error": ""}}}
    async with running({"bindVerb": "bind"}, answers=answers) as (extender, server):
        await extender.bind(PodInfo(make_pod("web", uid="u")), "a")
    assert server.received["bind"] == {
        "PodName": "web",
        "PodNamespace": "default",
        "PodUID": "u",
        "Node": "a",
    }


async def test_a_refused_binding_is_an_error() -> None:
    answers = {"bind": {"json": {"Error": "taken"}}}
    async with running({"bindVerb": "bind"}, answers=answers) as (extender, _):
        with pytest.raises(ExtenderError, match=r"^taken$"):
            await extender.bind(POD, "a")


async def test_what_follows_the_first_value_is_not_read() -> None:
    answers = {"filter": {"body": '{"NodeNames": ["b"]} trailing'}}
    async with running(FILTER, answers=answers) as (extender, _):
        assert (await extender.filter(POD, cluster().nodes)).nodes.names == ["b"]


async def test_null_is_an_empty_answer() -> None:
    async with running(FILTER, answers={"filter": {"body": "null"}}) as (extender, _):
        result = await extender.filter(POD, cluster().nodes)
    assert (result.nodes.names, result.failed_nodes) == ([], {})


# Connections.


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (
            "http://127.0.0.1:1",
            'Post "http://127.0.0.1:1/filter": dial tcp 127.0.0.1:1: connect: connection refused',
        ),
        (
            "http://me:secret@127.0.0.1:1/",
            'Post "http://me:***@127.0.0.1:1/filter": '
            "dial tcp 127.0.0.1:1: connect: connection refused",
        ),
        ("", 'Post "/filter": unsupported protocol scheme ""'),
        ("ftp://x", 'Post "ftp://x/filter": unsupported protocol scheme "ftp"'),
    ],
)
async def test_the_text_names_the_request_without_its_password(url: str, text: str) -> None:
    assert await error_of({"urlPrefix": url}) == text


async def test_a_call_ends_after_the_timeout_on_the_clock_of_the_scheduler() -> None:
    clock = VirtualClock()
    config = {**FILTER, "httpTimeout": "30s"}
    answers = {"filter": {"delay": "1h"}}
    async with running(config, clock=clock, answers=answers) as (extender, server):
        call = asyncio.ensure_future(extender.filter(POD, cluster().nodes))
        for _ in range(500):
            if server.calls["filter"]:
                break
            await asyncio.sleep(0.01)
        clock.advance_nowait(29)
        await asyncio.sleep(0.01)
        assert not call.done()
        clock.advance_nowait(2)
        with pytest.raises(ExtenderError, match=r"deadline exceeded .*while awaiting headers"):
            await call


async def test_a_negative_timeout_is_none() -> None:
    async with running({**FILTER, "httpTimeout": "-1s"}) as (extender, _):
        assert len((await extender.filter(POD, cluster().nodes)).nodes) == 2


async def test_a_certificate_of_an_unknown_authority_is_refused() -> None:
    text = await error_of({}, tls="untrusted")
    assert text.startswith('Post "https://127.0.0.1:')
    assert text.endswith(
        "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    )


async def test_a_server_without_tls_behind_https() -> None:
    async with running(FILTER) as (_, server):
        config = {**FILTER, "urlPrefix": str(server.config["urlPrefix"]).replace("http", "https")}
        assert (await error_of(config)).endswith("http: server gave HTTP response to HTTPS client")


@pytest.mark.parametrize("tls", [{"insecure": True}, {"caFile": str(CERTIFICATE)}])
async def test_https_with_the_configured_trust(tls: dict[str, Any]) -> None:
    async with running({**FILTER, "tlsConfig": tls}, tls="untrusted") as (extender, _):
        assert len((await extender.filter(POD, cluster().nodes)).nodes) == 2


async def test_a_changed_ca_file_is_read_again(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    shutil.copy(Path(__file__).parents[1] / "client" / "tls" / "ca.pem", ca)
    config = {**FILTER, "tlsConfig": {"caFile": str(ca)}}
    async with running(config, tls="untrusted") as (extender, _):
        with pytest.raises(ExtenderError, match="unknown authority"):
            await extender.filter(POD, cluster().nodes)
        shutil.copy(CERTIFICATE, ca)
        await extender.filter(POD, cluster().nodes)
        ca.unlink()
        await extender.filter(POD, cluster().nodes)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"tlsConfig": {"caFile": "/nowhere"}}, "open /nowhere: no such file or directory"),
        (
            {"tlsConfig": {"caFile": "/nowhere", "insecure": True}},
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
        (
            {"tlsConfig": {"caData": "bm90aGluZw=="}},
            "unable to load root certificates: unable to parse bytes as PEM block",
        ),
        (
            {"tlsConfig": {"certFile": "/nowhere", "keyData": "eA=="}},
            "open /nowhere: no such file or directory",
        ),
    ],
)
def test_a_tls_configuration_that_cannot_work(fields: dict[str, Any], text: str) -> None:
    config = config_of({"urlPrefix": "https://x", **fields})
    with pytest.raises(ConfigError) as refusal:
        HTTPExtenders([config], clock=SystemClock(), environ={})
    assert str(refusal.value) == f"couldn't build extenders: {text}"


def test_ignorable_extenders_go_last() -> None:
    configs = [
        config_of({"urlPrefix": name, "ignorable": name.startswith("i")})
        for name in ("i1", "a", "i2", "b")
    ]
    extenders = HTTPExtenders(configs, clock=SystemClock(), environ={}).in_order
    assert [extender.name for extender in extenders] == ["a", "b", "i1", "i2"]
