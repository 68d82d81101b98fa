"""RBAC over HTTP: users by their tokens, roles as they are stored, refusals in upstream's words."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock, Security, User

from ..api_client import MERGE, ApiClient, Reply

Json = dict[str, Any]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
DEFAULT = f"{RBAC}/namespaces/default"
PODS = "/api/v1/namespaces/default/pods"
USERS = {
    "root": User("root", ("system:masters",)),
    "jane": User("jane", ("devs",)),
    "scheduler": User("system:kube-scheduler"),
    "robot": User("system:serviceaccount:default:robot"),
    **{
        f"driver-on-{node}": User(
            "system:serviceaccount:default:driver",
            extra=(("authentication.kubernetes.io/node-name", (node,)),),
        )
        for node in ("n1", "n2")
    },
}


class Caller:
    """A client that shows a token."""

    def __init__(self, api: ApiClient, token: str) -> None:
        self._api = api
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def __call__(self, method: str, path: str, body: Any = None, **others: Any) -> Reply:
        headers = {**self._headers, **others.pop("headers", {})}
        return await self._api.request(method, path, body, headers=headers, **others)

    async def may(self, verb: str, resource: str, **others: str) -> bool:
        """Return the answer to an access review."""
        asked = {"verb": verb, "resource": resource, **others}
        review = {"spec": {"resourceAttributes": asked}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        reply = await self("POST", path, review)
        assert reply.code == 201, reply.body
        return bool(reply.body["status"]["allowed"])


@pytest.fixture
async def guarded() -> AsyncIterator[FakeApiServer]:
    security = Security(tokens=USERS, authorization_mode="RBAC")
    async with FakeApiServer(clock=ManualClock(), seed=1, security=security) as server:
        yield server


@pytest.fixture
def api(guarded: FakeApiServer, session: aiohttp.ClientSession) -> ApiClient:
    return ApiClient(session, guarded.url)


@pytest.fixture
def root(api: ApiClient) -> Caller:
    return Caller(api, "root")


@pytest.fixture
def jane(api: ApiClient) -> Caller:
    return Caller(api, "jane")


def role(name: str, *rules: Json, kind: str = "Role") -> Json:
    return {"kind": kind, "metadata": {"name": name}, "rules": list(rules)}


def binding(name: str, role_kind: str, role_name: str, *subjects: Json) -> Json:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role_name}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": list(subjects)}


def subject(kind: str, name: str, **others: str) -> Json:
    return {"kind": kind, "name": name, **others}


async def grant(root: Caller, *rules: Json, who: Json) -> None:
    """A role in the default namespace and a binding to it."""
    assert (await root("POST", f"{DEFAULT}/roles", role("given", *rules))).code == 201
    bound = binding("given", "Role", "given", who)
    assert (await root("POST", f"{DEFAULT}/rolebindings", bound)).code == 201


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        (
            "GET",
            PODS,
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" '
            'in the namespace "default"',
        ),
        (
            "GET",
            f"{PODS}?watch=1",
            'pods is forbidden: User "jane" cannot watch resource "pods" in API group "" '
            'in the namespace "default"',
        ),
        (
            "GET",
            "/api/v1/nodes/n1",
            'nodes "n1" is forbidden: User "jane" cannot get resource "nodes" in API group "" '
            "at the cluster scope",
        ),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/default/deployments",
            'deployments.apps is forbidden: User "jane" cannot deletecollection resource '
            '"deployments" in API group "apps" in the namespace "default"',
        ),
        (
            "PATCH",
            f"{PODS}/p/status",
            'pods "p" is forbidden: User "jane" cannot patch resource "pods/status" in API group '
            '"" in the namespace "default"',
        ),
        (
            "GET",
            "/api/v1/namespaces/default",
            'namespaces "default" is forbidden: User "jane" cannot get resource "namespaces" in '
            'API group "" in the namespace "default"',
        ),
        (
            "GET",
            "/apis/example.com/v1/things",
            'things.example.com is forbidden: User "jane" cannot list resource "things" in API '
            'group "example.com" at the cluster scope',
        ),
        ("GET", "/metrics", 'forbidden: User "jane" cannot get path "/metrics"'),
        ("POST", "/_fakeapi/faults", 'forbidden: User "jane" cannot post path "/_fakeapi/faults"'),
    ],
)
async def test_a_refusal_names_user_and_resource(
    jane: Caller, method: str, path: str, message: str
) -> None:
    reply = await jane(method, path)
    assert (reply.code, reply.reason, reply.message) == (403, "Forbidden", message)


async def test_a_refusal_names_the_object_in_its_details(jane: Caller) -> None:
    reply = await jane("GET", "/apis/apps/v1/namespaces/default/deployments/web")
    assert reply.body["details"] == {"name": "web", "group": "apps", "kind": "deployments"}


async def test_administrators_may_do_everything_and_everybody_may_look_around(
    root: Caller, jane: Caller
) -> None:
    assert (await root("GET", PODS)).code == 200
    for path in ("/version", "/api", "/apis", "/apis/apps/v1", "/openapi/v3", "/healthz"):
        assert (await jane("GET", path)).code == 200, path


async def test_anonymous_users_may_read_the_version_only(api: ApiClient) -> None:
    nobody = Caller(api, "")
    assert (await nobody("GET", "/version")).code == 200
    reply = await nobody("GET", "/api")
    assert reply.message == 'forbidden: User "system:anonymous" cannot get path "/api"'


async def test_an_unknown_token_is_not_the_same_as_none(api: ApiClient) -> None:
    reply = await Caller(api, "unknown")("GET", "/version")
    assert (reply.code, reply.reason, reply.message) == (401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize(
    ("rule", "allowed", "refused"),
    [
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
            [("GET", f"{PODS}/p")],
            [("GET", PODS), ("GET", f"{PODS}/p/status"), ("GET", "/api/v1/pods")],
        ),
        (
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            [("GET", PODS), ("GET", f"{PODS}/p/status")],
            [("GET", "/api/v1/namespaces/kube-system/pods"), ("GET", "/metrics")],
        ),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["*/status"]},
            [("GET", f"{PODS}/p/status")],
            [("GET", f"{PODS}/p")],
        ),
        (
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"],
             "resourceNames": ["p"]},
            [("GET", f"{PODS}/p"), ("GET", f"{PODS}?fieldSelector=metadata.name%3Dp")],
            [("GET", f"{PODS}/q"), ("GET", PODS)],
        ),
    ],
)  # fmt: skip
async def test_a_role_allows_the_requests_of_its_rules(
    root: Caller,
    jane: Caller,
    rule: Json,
    allowed: list[tuple[str, str]],
    refused: list[tuple[str, str]],
) -> None:
    await grant(root, rule, who=subject("User", "jane"))
    for method, path in allowed:
        assert (await jane(method, path)).code in (200, 404), path
    for method, path in refused:
        assert (await jane(method, path)).code == 403, path


@pytest.mark.parametrize(
    ("token", "who", "is_meant"),
    [
        ("jane", subject("Group", "devs"), True),
        ("jane", subject("Group", "system:authenticated"), True),
        ("jane", subject("Group", "ops"), False),
        ("jane", subject("User", "devs"), False),
        ("robot", subject("ServiceAccount", "robot"), True),
        ("robot", subject("ServiceAccount", "robot", namespace="other"), False),
    ],
)
async def test_a_binding_means_users_groups_and_service_accounts(
    api: ApiClient, root: Caller, token: str, who: Json, *, is_meant: bool
) -> None:
    await grant(root, {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}, who=who)
    assert (await Caller(api, token)("GET", PODS)).code == (200 if is_meant else 403)


async def test_rights_change_with_the_roles_at_once(root: Caller, jane: Caller) -> None:
    rule = {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}
    await grant(root, rule, who=subject("User", "jane"))
    assert (await jane("GET", PODS)).code == 200
    await root("DELETE", f"{DEFAULT}/roles/given")
    reply = await jane("GET", PODS)
    assert reply.message.endswith(': RBAC: role.rbac.authorization.k8s.io "given" not found')


async def test_a_cluster_role_grants_paths_and_every_namespace(root: Caller, jane: Caller) -> None:
    rules = [
        {"verbs": ["get"], "nonResourceURLs": ["/metrics*"]},
        {"verbs": ["list"], "apiGroups": [""], "resources": ["nodes", "pods"]},
    ]
    await root("POST", f"{RBAC}/clusterroles", role("wide", *rules, kind="ClusterRole"))
    bound = binding("wide", "ClusterRole", "wide", subject("User", "jane"))
    await root("POST", f"{RBAC}/clusterrolebindings", bound)
    assert (await jane("GET", "/metrics/slis")).code == 404  # there is none, but she may ask
    assert (await jane("GET", "/api/v1/nodes")).code == 200
    assert (await jane("GET", "/api/v1/namespaces/kube-system/pods")).code == 200


async def test_the_view_role_has_the_rules_that_upstream_aggregates(
    root: Caller, jane: Caller
) -> None:
    bound = binding("viewer", "ClusterRole", "view", subject("User", "jane"))
    await root("POST", f"{DEFAULT}/rolebindings", bound)
    assert await jane.may("list", "pods", namespace="default")
    assert not await jane.may("list", "secrets", namespace="default")


async def test_the_scheduler_has_the_rights_it_needs(api: ApiClient) -> None:
    scheduler = Caller(api, "scheduler")
    assert await scheduler.may("create", "pods", namespace="default", subresource="binding")
    assert await scheduler.may("update", "persistentvolumeclaims", namespace="default")
    assert await scheduler.may(
        "update",
        "leases",
        namespace="kube-system",
        group="coordination.k8s.io",
        name="kube-scheduler",
    )
    assert not await scheduler.may("create", "pods", namespace="default")


async def test_a_review_names_the_binding_that_allows_it(root: Caller) -> None:
    asked = {"verb": "list", "resource": "nodes"}
    spec = {"resourceAttributes": asked, "user": "system:kube-scheduler"}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    reply = await root("POST", path, {"spec": spec})
    assert reply.body["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by ClusterRoleBinding "system:kube-scheduler" of ClusterRole '
        '"system:kube-scheduler" to User "system:kube-scheduler"',
    }


async def test_the_rules_of_a_user_are_those_of_its_bindings(root: Caller, jane: Caller) -> None:
    rule = {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}
    await grant(root, rule, who=subject("User", "jane"))
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    status = (await jane("POST", path, {"spec": {"namespace": "default"}})).body["status"]
    assert rule in status["resourceRules"]
    assert ["/version"] in [
        [url for url in found["nonResourceURLs"] if url == "/version"]
        for found in status["nonResourceRules"]
    ]


async def test_impersonation_is_refused_with_a_reason(root: Caller) -> None:
    reply = await root("GET", PODS, headers={"Impersonate-User": "jane"})
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert reply.message == "impersonation is not served: remove the header Impersonate-User"


@pytest.mark.parametrize(
    ("path", "body", "causes"),
    [
        (f"{DEFAULT}/roles", role("r", {"verbs": []}), [
            ("FieldValueRequired", "rules[0].verbs"),
        ]),
        (f"{DEFAULT}/rolebindings", binding("b", "Group", "x"), [
            ("FieldValueNotSupported", "roleRef.kind"),
        ]),
        (f"{DEFAULT}/rolebindings", binding("b", "Role", ""), [
            ("FieldValueRequired", "roleRef.name"),
        ]),
    ],
)  # fmt: skip
async def test_roles_and_bindings_that_make_no_sense_are_invalid(
    root: Caller, path: str, body: Json, causes: list[tuple[str, str]]
) -> None:
    reply = await root("POST", path, body)
    assert (reply.code, reply.causes) == (422, causes)


async def test_a_binding_is_to_one_role_for_ever(root: Caller) -> None:
    path = f"{DEFAULT}/rolebindings"
    created = (await root("POST", path, binding("b", "Role", "x", subject("User", "joe")))).body
    assert created["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    created["roleRef"]["name"] = "y"
    reply = await root("PUT", f"{path}/b", created)
    assert reply.causes == [("FieldValueInvalid", "roleRef")]


CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
ALLOCATED = {
    "devices": {"results": [{"request": "r", "driver": "d.io", "pool": "p", "device": "x"}]},
    "nodeSelector": {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
        ]
    },
}
DEVICES = [{"driver": "d.io", "pool": "p", "device": "x", "data": {"a": 1}}]


async def _claim(root: Caller) -> str:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    assert (await root("POST", CLAIMS, body)).code == 201
    return f"{CLAIMS}/c/status"


async def test_an_allocation_needs_the_permission_for_bindings_of_claims(
    root: Caller, jane: Caller
) -> None:
    status = await _claim(root)
    verbs = ["get", "patch", "update"]
    rule = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"]}
    await grant(root, {**rule, "verbs": verbs}, who=subject("User", "jane"))
    patch = {"status": {"allocation": ALLOCATED}}
    refused = await jane("PATCH", status, patch, content_type=MERGE)
    assert (refused.code, refused.causes) == (422, [("FieldValueForbidden", "status.allocation")])
    assert refused.message == (
        'ResourceClaim.resource.k8s.io "c" is invalid: status.allocation: Forbidden: changing '
        "status.allocation or status.reservedFor requires "
        'resource="resourceclaims/binding", verb="patch" permission: '
        'resourceclaims.resource.k8s.io is forbidden: User "jane" cannot patch resource '
        '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
    )
    whole = {**(await root("GET", status)).body, **patch}
    assert 'verb="update"' in (await jane("PUT", status, whole)).message
    bind = {**rule, "resources": ["resourceclaims/binding"], "verbs": ["patch"]}
    everywhere = role("binder", bind, kind="ClusterRole")
    await root("POST", f"{RBAC}/clusterroles", everywhere)
    bound = binding("binder", "ClusterRole", "binder", subject("User", "jane"))
    await root("POST", f"{RBAC}/clusterrolebindings", bound)
    assert (await jane("PATCH", status, patch, content_type=MERGE)).code == 200


@pytest.mark.parametrize(
    ("user", "verb", "code"),
    [
        ("jane", "arbitrary-node:patch", 200),
        ("jane", "associated-node:patch", 422),
        ("driver-on-n1", "associated-node:patch", 200),
        ("driver-on-n2", "associated-node:patch", 422),
    ],
)
async def test_the_status_of_devices_needs_a_permission_for_their_driver(
    root: Caller, api: ApiClient, user: str, verb: str, code: int
) -> None:
    status = await _claim(root)
    body = {"status": {"allocation": ALLOCATED}}
    assert (await root("PATCH", status, body, content_type=MERGE)).code == 200
    group = {"apiGroups": ["resource.k8s.io"]}
    rules = (
        {**group, "resources": ["resourceclaims/status"], "verbs": ["patch"]},
        {
            **group,
            "resources": ["resourceclaims/driver"],
            "resourceNames": ["d.io"],
            "verbs": [verb],
        },
    )
    await grant(root, *rules, who=subject("User", USERS[user].name))
    patch = {"status": {"devices": DEVICES}}
    reply = await Caller(api, user)("PATCH", status, patch, content_type=MERGE)
    assert reply.code == code, reply.body
    if code == 422:
        assert reply.causes == [("FieldValueForbidden", "status.devices")]
        assert 'requires resource="resourceclaims/driver", verb="[' in reply.message


@pytest.mark.parametrize(
    ("method", "query", "kind"),
    [("PUT", "", "application/json"), ("PATCH", "?fieldManager=m", "application/apply-patch+yaml")],
)
async def test_an_update_or_apply_that_creates_needs_the_permission_to_create(
    root: Caller, jane: Caller, method: str, query: str, kind: str
) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    await grant(root, {**rule, "verbs": ["update", "patch"]}, who=subject("User", "jane"))
    refused = await jane(method, f"{leases}/l{query}", lease, content_type=kind)
    assert refused.code == 403
    assert 'cannot create resource "leases"' in refused.message
    changed = {"rules": [{**rule, "verbs": ["update", "patch", "create"]}]}
    await root("PATCH", f"{DEFAULT}/roles/given", changed, content_type=MERGE)
    assert (await jane(method, f"{leases}/l{query}", lease, content_type=kind)).code == 201


async def _administers_default(root: Caller, who: str) -> None:
    bound = binding("admin", "ClusterRole", "admin", subject("User", who))
    assert (await root("POST", f"{DEFAULT}/rolebindings", bound)).code == 201


GET_SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
NOT_HELD = (
    'user "jane" (groups=["devs" "system:authenticated"]) is attempting to grant RBAC permissions '
    "not currently held:\n"
)


async def test_a_user_cannot_bind_a_role_with_permissions_that_the_user_does_not_have(
    root: Caller, jane: Caller
) -> None:
    await _administers_default(root, "jane")
    mine = binding("mine", "ClusterRole", "cluster-admin", subject("User", "jane"))
    apply = {**mine, "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    path = f"{DEFAULT}/rolebindings"
    for method, where, body, how in (
        ("POST", path, mine, "application/json"),
        ("POST", f"{path}?dryRun=All", mine, "application/json"),
        ("PUT", f"{path}/mine", mine, "application/json"),
        ("PATCH", f"{path}/mine?fieldManager=m", apply, "application/apply-patch+yaml"),
    ):
        reply = await jane(method, where, body, content_type=how)
        assert (reply.code, reply.reason) == (403, "Forbidden")
        assert reply.message == (
            f'rolebindings.rbac.authorization.k8s.io "mine" is forbidden: {NOT_HELD}'
            '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n'
            '{NonResourceURLs:["*"], Verbs:["*"]}'
        )
    assert (await root("GET", f"{path}/mine")).code == 404
    same = binding("mine", "ClusterRole", "edit", subject("User", "joe"))
    assert (await jane("POST", path, same)).code == 201


async def test_a_user_cannot_write_a_role_with_permissions_that_the_user_does_not_have(
    root: Caller, jane: Caller
) -> None:
    await _administers_default(root, "jane")
    nodes = {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list"]}
    reply = await jane("POST", f"{DEFAULT}/roles", role("r", GET_SECRETS, nodes))
    assert reply.code == 403
    held = f'{NOT_HELD}{{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list"]}}'
    assert reply.message == f'roles.rbac.authorization.k8s.io "r" is forbidden: {held}'
    assert (await jane("POST", f"{DEFAULT}/roles", role("r", GET_SECRETS))).code == 201
    change = {"rules": [{**GET_SECRETS, "verbs": ["*"]}]}
    assert (await jane("PATCH", f"{DEFAULT}/roles/r", change, content_type=MERGE)).code == 403
    labels = {"metadata": {"finalizers": ["example.com/x"]}}
    assert (await root("PUT", f"{DEFAULT}/roles/r", role("r", nodes))).code == 200
    assert (await jane("PATCH", f"{DEFAULT}/roles/r", labels, content_type=MERGE)).code == 200


@pytest.mark.parametrize(
    ("verb", "resource", "path", "body"),
    [
        ("escalate", "roles", "roles", role("r", {**GET_SECRETS, "verbs": ["*"]})),
        ("bind", "clusterroles", "rolebindings", binding("b", "ClusterRole", "cluster-admin")),
    ],
)
async def test_the_verbs_escalate_and_bind_allow_to_grant_more(
    root: Caller, jane: Caller, verb: str, resource: str, path: str, body: Json
) -> None:
    await _administers_default(root, "jane")
    assert (await jane("POST", f"{DEFAULT}/{path}", body)).code == 403
    allowed = {"apiGroups": [RBAC.split("/")[2]], "resources": [resource], "verbs": [verb]}
    await grant(root, allowed, who=subject("User", "jane"))
    assert (await jane("POST", f"{DEFAULT}/{path}", body)).code == 201


async def test_a_role_of_very_many_permissions_is_not_compared_one_by_one(
    root: Caller, jane: Caller
) -> None:
    await _administers_default(root, "jane")
    many = [f"n{n}" for n in range(300)]
    reply = await jane(
        "POST",
        f"{DEFAULT}/roles",
        role("r", {"apiGroups": many, "resources": many, "resourceNames": many, "verbs": many}),
    )
    assert reply.code == 403
    assert reply.message.endswith("more than 10000 permissions")


async def test_many_permissions_are_looked_up_among_many_rules_of_the_user(
    root: Caller, jane: Caller
) -> None:
    await _administers_default(root, "jane")
    one = {**GET_SECRETS, "resources": ["configmaps"]}
    rules = [{**one, "resourceNames": [f"n{n}"]} for n in range(1_500)]
    assert (await jane("POST", f"{DEFAULT}/roles", role("mine", *rules))).code == 201
    bound = binding("mine", "Role", "mine", subject("User", "jane"))
    assert (await jane("POST", f"{DEFAULT}/rolebindings", bound)).code == 201
    names = [f"n{n}" for n in range(9_000)]
    other = {**one, "verbs": ["bind"], "resourceNames": names}
    start = time.process_time()
    assert (await jane("POST", f"{DEFAULT}/roles", role("other", other))).code == 403
    assert time.process_time() - start < 2.0


async def test_only_an_administrator_sets_an_aggregation_rule(root: Caller, jane: Caller) -> None:
    rule = {"apiGroups": [RBAC.split("/")[2]], "resources": ["clusterroles"], "verbs": ["create"]}
    assert (
        await root("POST", f"{RBAC}/clusterroles", role("c", rule, kind="ClusterRole"))
    ).code == 201
    bound = binding("c", "ClusterRole", "c", subject("User", "jane"))
    assert (await root("POST", f"{RBAC}/clusterrolebindings", bound)).code == 201
    selector = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    reply = await jane(
        "POST",
        f"{RBAC}/clusterroles",
        {**role("mine", kind="ClusterRole"), "aggregationRule": selector},
    )
    assert reply.code == 403
    assert "must have cluster-admin privileges to use the aggregationRule" in reply.message


@pytest.mark.parametrize("name", ["Impersonate-User", "Impersonate-Group", "impersonate-uid"])
async def test_headers_of_impersonation_are_refused(root: Caller, name: str) -> None:
    reply = await root("GET", PODS, headers={name: "system:masters"})
    assert reply.code == 400
    assert reply.message == f"impersonation is not served: remove the header {name.title()}"


async def test_a_review_with_very_many_groups_looks_each_binding_up_once(root: Caller) -> None:
    groups = [f"g{n}" for n in range(40_000)]
    bound = binding("b", "ClusterRole", "view", *(subject("Group", f"h{n}") for n in range(6_000)))
    assert (await root("POST", f"{DEFAULT}/rolebindings", bound)).code == 201
    asked = {"verb": "get", "resource": "pods", "namespace": "default"}
    spec = {"groups": groups, "resourceAttributes": asked}
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    start = time.process_time()
    assert not (await root("POST", reviews, {"spec": spec})).body["status"]["allowed"]
    assert time.process_time() - start < 2.0


async def test_an_absolute_target_is_authorized_by_the_path_that_is_served(
    guarded: FakeApiServer, root: Caller
) -> None:
    """An authority that looks like the path of an allowed URL is no way in."""
    await grant(
        root,
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        who=subject("User", "jane"),
    )
    answers = []
    for path in ("/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/secrets"):
        reader, writer = await asyncio.open_connection("127.0.0.1", guarded.port)
        head = f"GET http://version{path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
        writer.write(f"{head}Authorization: Bearer jane\r\n\r\n".encode())
        answers.append((await reader.read())[9:12])
        writer.close()
    assert answers == [b"200", b"403"]
