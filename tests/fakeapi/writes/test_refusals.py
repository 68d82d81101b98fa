"""Small things in which random requests to a real kube-apiserver found ours to differ.

What could be recorded is in exchanges/refusals.yaml and exchanges/failures.yaml.
"""

from ..api_client import ApiClient
from ..objects import CONFIG_MAPS, NAMESPACES, config_map

SERVICES = "/api/v1/namespaces/default/services"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def test_a_service_may_be_created_by_its_status(api: ApiClient) -> None:
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    made = await api.request("PUT", f"{SERVICES}/s/status", service)
    assert (made.code, (await api.get(f"{SERVICES}/s")).code) == (201, 200)


async def test_a_class_of_the_system_goes_with_all_others_but_not_alone(api: ApiClient) -> None:
    alone = await api.request("DELETE", f"{CLASSES}/system-node-critical")
    assert (alone.code, alone.reason) == (403, "Forbidden")
    assert (await api.request("DELETE", CLASSES)).code == 200
    assert (await api.get(f"{CLASSES}/system-node-critical")).code == 404


async def test_namespaces_are_deleted_one_by_one(api: ApiClient) -> None:
    refused = await api.request("DELETE", NAMESPACES)
    assert (refused.code, refused.reason) == (405, "MethodNotAllowed")
    served = (await api.get("/api/v1")).body["resources"]
    verbs = {resource["name"]: resource["verbs"] for resource in served}
    assert "deletecollection" not in verbs["namespaces"]
    assert "deletecollection" in verbs["configmaps"]


async def test_an_invalid_resource_version_is_not_stored(api: ApiClient) -> None:
    made = await api.post(CONFIG_MAPS, config_map("c", resourceVersion="x"))
    assert made.code == 201
    assert made.body["metadata"]["resourceVersion"].isdecimal()


async def test_a_deletion_may_name_its_conditions_in_the_query(api: ApiClient) -> None:
    made = await api.create(CONFIG_MAPS, config_map("c"))
    refused = await api.request("DELETE", f"{CONFIG_MAPS}/c", resourceVersion="1")
    assert (refused.code, "ResourceVersion in the precondition (1)" in refused.message) == (
        409,
        True,
    )
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    gone = await api.request("DELETE", f"{CONFIG_MAPS}/c", uid=uid, resourceVersion=version)
    assert gone.code == 200
