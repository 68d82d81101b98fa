"""Bodies in application/vnd.kubernetes.protobuf, over HTTP and against upstream's own examples."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fakeapi.types import protobuf, schema

from ..api_client import ApiClient, Reply
from ..objects import (
    BUDGETS,
    CONFIG_MAPS,
    CORE_EVENTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    pod,
)
from ..protobuf_writer import MEDIA_TYPE, enveloped, message, metadata, quantity_entry

#: One file per kind with every field set, as JSON and as protobuf; there where Go modules are.
UPSTREAM = Path.home() / "go/pkg/mod/k8s.io/api@v0.36.3/testdata/HEAD"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CONTAINER = message((1, "c"), (2, "x"), (5, ""), (8, message()), (13, ""), (20, ""))


async def send(api: ApiClient, method: str, path: str, body: bytes, **query: Any) -> Reply:
    return await api.request(method, path, body, content_type=MEDIA_TYPE, **query)


async def test_a_pod_is_created(api: ApiClient) -> None:
    requests = message((2, quantity_entry("cpu", "500m")), (2, quantity_entry("memory", "1Gi")))
    port = message((1, ""), (2, 0), (3, 8080), (4, "TCP"), (5, ""))
    probe = message((1, message((2, message((1, "/z"), (2, message((1, 1), (2, 0), (3, "web"))))))))
    container = message(
        (1, "c"), (2, "x"), (6, port), (7, message((1, "A"), (2, ""))), (8, requests), (10, probe)
    )
    volume = message((1, "scratch"), (2, message((2, message()))))
    toleration = message((1, "k"), (2, "Exists"), (3, ""), (4, "NoExecute"), (5, 60))
    spec = message((1, volume), (2, container), (4, 0), (10, ""), (11, 1), (22, toleration))
    meta = metadata("p", (11, message((1, "app"), (2, "web"))), (12, message((1, "note"), (2, ""))))
    body = enveloped("v1", "Pod", message((1, meta), (2, spec), (3, message((1, "")))))

    created = await send(api, "POST", PODS, body)

    assert created.code == 201, created.body
    assert created.headers["Content-Type"] == "application/json"
    found = created.body
    assert found["metadata"]["labels"] == {"app": "web"}
    assert found["metadata"]["annotations"] == {"note": ""}
    assert found["spec"]["volumes"] == [{"name": "scratch", "emptyDir": {}}]
    assert found["spec"]["terminationGracePeriodSeconds"] == 0
    assert found["spec"]["hostNetwork"] is True
    assert found["spec"]["tolerations"][0]["tolerationSeconds"] == 60
    (made,) = found["spec"]["containers"]
    assert made["resources"] == {"requests": {"cpu": "500m", "memory": "1Gi"}}
    assert made["ports"] == [{"containerPort": 8080, "hostPort": 8080, "protocol": "TCP"}]
    assert made["env"] == [{"name": "A"}]
    assert made["livenessProbe"]["httpGet"] == {"path": "/z", "port": "web", "scheme": "HTTP"}


async def test_a_node_and_a_namespace_are_created(api: ApiClient) -> None:
    taint = message((1, "k"), (2, "v"), (3, "NoSchedule"), (4, message((1, 1_700_000_000))))
    status = message((1, quantity_entry("pods", "110")), (2, quantity_entry("cpu", "4")))
    node = message((1, metadata("n1")), (2, message((4, 1), (5, taint))), (3, status))
    created = await send(api, "POST", NODES, enveloped("v1", "Node", node))
    assert created.code == 201, created.body
    assert created.body["status"]["capacity"] == {"pods": "110"}
    assert created.body["status"]["allocatable"] == {"cpu": "4"}
    assert created.body["spec"] == {
        "unschedulable": True,
        "taints": [
            {
                "key": "k",
                "value": "v",
                "effect": "NoSchedule",
                "timeAdded": "2023-11-14T22:13:20Z",
            }
        ],
    }
    namespace = message((1, metadata("web")), (2, message()), (3, message((1, ""))))
    made = await send(api, "POST", NAMESPACES, enveloped("v1", "Namespace", namespace))
    assert (made.code, made.body["status"]) == (201, {"phase": "Active"})


async def test_a_config_map_keeps_text_and_bytes(api: ApiClient) -> None:
    data = message((1, "a"), (2, "1"))
    binary = message((1, "b"), (2, b"\xff\x00"))
    body = message((1, metadata("c")), (2, data), (3, binary), (99, "of a later version"))
    made = await send(api, "POST", CONFIG_MAPS, enveloped("v1", "ConfigMap", body))
    assert made.code == 201, made.body
    assert made.body["data"] == {"a": "1"}
    assert made.body["binaryData"] == {"b": "/wA="}


async def test_a_deployment_is_created(api: ApiClient) -> None:
    labels = message((1, "app"), (2, "web"))
    template = message((1, metadata("", (11, labels))), (2, message((2, CONTAINER))))
    percent = message((1, 1), (2, 0), (3, "25%"))
    strategy = message((1, "RollingUpdate"), (2, message((1, percent), (2, message((2, 3))))))
    spec = message((1, 0), (2, message((1, labels))), (3, template), (4, strategy), (5, 0), (7, 0))
    body = enveloped("apps/v1", "Deployment", message((1, metadata("d")), (2, spec)))
    made = await send(api, "POST", DEPLOYMENTS, body)
    assert made.code == 201, made.body
    assert made.body["spec"]["replicas"] == 0
    assert made.body["spec"]["selector"] == {"matchLabels": {"app": "web"}}
    assert made.body["spec"]["strategy"]["rollingUpdate"] == {
        "maxUnavailable": "25%",
        "maxSurge": 3,
    }


async def test_a_pod_is_bound_evicted_and_deleted(api: ApiClient) -> None:
    for name in ("a", "b"):
        await api.create(PODS, pod(name))
    target = message((1, "Node"), (2, ""), (3, "n1"), (4, ""), (5, ""), (6, ""), (7, ""))
    binding = message((1, metadata("a", (3, "default"))), (2, target))
    bound = await send(api, "POST", f"{PODS}/a/binding", enveloped("v1", "Binding", binding))
    assert (bound.code, bound.body["status"]) == (201, "Success")
    assert (await api.get(f"{PODS}/a")).body["spec"]["nodeName"] == "n1"

    wrong_uid = message((2, message((1, "someone else's"))))
    refused = await send(api, "DELETE", f"{PODS}/a", enveloped("v1", "DeleteOptions", wrong_uid))
    assert refused.code == 409
    at_once = enveloped("v1", "DeleteOptions", message((1, 0)))
    assert (await send(api, "DELETE", f"{PODS}/a", at_once)).code == 200
    assert (await api.get(f"{PODS}/a")).code == 404

    eviction = message((1, metadata("b")), (2, message()))
    evicted = await send(
        api, "POST", f"{PODS}/b/eviction", enveloped("policy/v1", "Eviction", eviction)
    )
    assert evicted.code == 201, evicted.body


async def test_a_lease_is_created_and_renewed(api: ApiClient) -> None:
    def lease(meta: bytes, micros: int) -> bytes:
        moment = message((1, 1_700_000_000), (2, micros * 1000))
        spec = message((1, "me"), (2, 15), (3, moment), (4, moment), (5, 0))
        return enveloped("coordination.k8s.io/v1", "Lease", message((1, meta), (2, spec)))

    made = await send(api, "POST", LEASES, lease(metadata("l"), 5))
    assert made.code == 201, made.body
    assert made.body["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2023-11-14T22:13:20.000005Z",
        "renewTime": "2023-11-14T22:13:20.000005Z",
        "leaseTransitions": 0,
    }
    fields = b'{"f:spec":{}}'
    entry = message((1, "me"), (2, "Update"), (6, "FieldsV1"), (7, message((1, fields))))
    meta = made.body["metadata"]
    again = message(
        (1, "l"), (5, meta["uid"]), (6, meta["resourceVersion"]), (8, message((1, 5))), (17, entry)
    )
    renewed = await send(api, "PUT", f"{LEASES}/l", lease(again, 6))
    assert renewed.code == 200, renewed.body
    assert renewed.body["spec"]["renewTime"] == "2023-11-14T22:13:20.000006Z"
    assert (await send(api, "PUT", f"{LEASES}/l", lease(again, 7))).code == 409


async def test_events_of_both_apis_are_created(api: ApiClient) -> None:
    regarding = message((1, "Pod"), (2, "default"), (3, "p"), (4, "u"), (5, "v1"), (6, "7"))
    body = message(
        (1, metadata("p.1", (3, "default"))), (2, message((1, 1_700_000_000), (2, 1000))),
        (4, "default-scheduler"), (5, "default-scheduler-host"), (6, "Binding"), (7, "Scheduled"),
        (8, regarding), (10, "assigned"), (11, "Normal"), (12, message()), (13, b""), (14, b""),
    )  # fmt: skip
    made = await send(api, "POST", EVENTS, enveloped("events.k8s.io/v1", "Event", body))
    assert made.code == 201, made.body
    assert made.body["regarding"]["resourceVersion"] == "7"
    assert made.body["eventTime"] == "2023-11-14T22:13:20.000001Z"

    moment = message((1, 1_700_000_000))
    core = message(
        (1, metadata("l.1", (3, "default"))), (2, message((1, "Lease"), (2, "default"), (3, "l"))),
        (3, "LeaderElection"), (4, "became leader"), (5, message((1, "x"), (2, ""))), (6, moment),
        (7, moment), (8, 1), (9, "Normal"), (10, b""),
    )  # fmt: skip
    old = await send(api, "POST", CORE_EVENTS, enveloped("v1", "Event", core))
    assert old.code == 201, old.body
    assert (old.body["count"], old.body["eventTime"]) == (1, None)
    assert old.body["source"] == {"component": "x"}


async def test_a_budget_counts_in_numbers_and_percents(api: ApiClient) -> None:
    spec = message((1, message((1, 0), (2, 2), (3, ""))), (2, message()))
    body = enveloped("policy/v1", "PodDisruptionBudget", message((1, metadata("b")), (2, spec)))
    made = await send(api, "POST", BUDGETS, body)
    assert made.code == 201, made.body
    assert made.body["spec"] == {"minAvailable": 2, "selector": {}}


def test_reviews_are_read() -> None:
    attributes = message((1, "default"), (2, "create"), (5, "pods"))
    review = message((1, metadata("")), (2, message((1, attributes))))
    read = protobuf.decode_message("authorization/v1.SelfSubjectAccessReview", review)
    assert read["spec"] == {
        "resourceAttributes": {"namespace": "default", "verb": "create", "resource": "pods"}
    }
    extra = message((1, "scopes"), (2, message((1, "a"), (1, "b"))))
    user = message((3, "me"), (4, "team"), (5, extra))
    subject = protobuf.decode_message("authorization/v1.SubjectAccessReview", message((2, user)))
    assert subject["spec"]["extra"] == {"scopes": ["a", "b"]}
    token = protobuf.decode_message(
        "authentication/v1.TokenReview", message((2, message((1, "t"))))
    )
    assert token["spec"] == {"token": "t"}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "(must be of type Pod): empty data (<empty>)"),
        (b"k8s\x00", "(must be of type Pod): empty body (6b387300)"),
        (
            b'{"kind":"Pod","apiVersion":"v1"}',
            "provided data does not appear to be a protobuf message, expected prefix "
            '[107 56 115 0] ({"kind":"Pod","apiVersion":"v1 ...)',
        ),
        (b"k8s\x00\x0a\xff", "(must be of type Pod): unexpected EOF (6b3873000aff)"),
        (
            enveloped("v1", "Pod", b"\x0a\xff"),
            'Pod in version "v1" cannot be handled as a Pod: unexpected EOF',
        ),
        (enveloped("v1", "Service", b""), 'Service in version "v1" cannot be handled as a Pod: '),
    ],
    ids=["empty", "only-magic", "json", "torn-envelope", "torn-message", "other-kind"],
)
async def test_malformed_bodies_are_refused(api: ApiClient, body: bytes, problem: str) -> None:
    refused = await send(api, "POST", PODS, body)
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert problem in refused.message


async def test_a_body_without_a_kind_is_of_the_kind_of_the_path(api: ApiClient) -> None:
    made = await send(api, "POST", CONFIG_MAPS, enveloped("", "", message((1, metadata("c")))))
    assert made.code == 201, made.body


async def test_patches_are_never_protobuf(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    refused = await send(api, "PATCH", f"{PODS}/p", enveloped("v1", "Pod", b""))
    assert refused.code == 415


def test_the_library_is_imported_when_it_is_needed() -> None:
    check = (
        "import sys, fakeapi.cli.command; "
        "assert not any(n.startswith('google') for n in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True, timeout=60)


def _examples() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(UPSTREAM.glob("*.pb")):
        group, version, kind = path.stem.rsplit(".", 2)
        short = group.removesuffix(".k8s.io").removesuffix(".authorization")
        type_name = f"{short}/{version}.{kind}"
        if type_name in schema.type_names():
            found.append((type_name, path))
    return found


@pytest.mark.slow
@pytest.mark.skipif(not UPSTREAM.is_dir(), reason="Go's module cache has no k8s.io/api v0.36.3")
def test_upstreams_examples_read_the_same_in_protobuf_and_json() -> None:
    """Source: k8s.io/api testdata, which roundtrip_test.go checks."""
    examples = _examples()
    assert len(examples) > 50
    for type_name, path in examples:
        envelope = protobuf.open_envelope(path.read_bytes())
        read = schema.decode(type_name, protobuf.decode_message(type_name, envelope.message))
        expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        assert (envelope.api_version, envelope.kind) == (
            expected.pop("apiVersion"),
            expected.pop("kind"),
        )
        assert read == schema.decode(type_name, expected), type_name
