"""The garbage collector with the three propagation policies; the deletion of namespaces."""

from typing import Any

from fakeapi import KubeletOptions

from ..actor_cluster import PODS, Cluster, cluster, pod
from ..api_client import Json
from ..custom_resources import DEFINITIONS, WIDGETS, definition
from ..objects import CONFIG_MAPS, NAMESPACES, config_map


def owned_by(*owners: Json, blocks: bool = False) -> list[Json]:
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **({"blockOwnerDeletion": True} if blocks else {}),
        }
        for owner in owners
    ]


async def family(c: Cluster, *, blocks: bool = False, **metadata: Any) -> None:
    owner = await c.create(CONFIG_MAPS, config_map("owner"))
    child = await c.create(
        CONFIG_MAPS, config_map("child", ownerReferences=owned_by(owner, blocks=blocks), **metadata)
    )
    references = owned_by(child, blocks=blocks)
    await c.create(CONFIG_MAPS, config_map("grandchild", ownerReferences=references))


async def remove(c: Cluster, policy: str, name: str = "owner") -> None:
    reply = await c.api.delete(f"{CONFIG_MAPS}/{name}", {"propagationPolicy": policy})
    assert reply.code == 200
    await c.settle()


async def names(c: Cluster) -> list[str]:
    return [item["metadata"]["name"] for item in await c.items(CONFIG_MAPS)]


async def test_background_deletes_dependents_after_the_owner() -> None:
    async with cluster(garbage_collector=True) as c:
        await family(c)
        await c.create(CONFIG_MAPS, config_map("stranger"))
        await remove(c, "Background")
        assert await names(c) == ["stranger"]


async def test_foreground_deletes_the_owner_last() -> None:
    async with cluster(garbage_collector=True) as c:
        await family(c, blocks=True, finalizers=["my/finalizer"])
        await remove(c, "Foreground")
        assert await names(c) == ["child", "owner"]  # the child keeps its owner waiting
        await c.api.patch(f"{CONFIG_MAPS}/child", {"metadata": {"finalizers": None}})
        await c.settle()
        assert await names(c) == []


async def test_foreground_does_not_wait_for_dependents_that_do_not_block() -> None:
    async with cluster(garbage_collector=True) as c:
        await family(c, finalizers=["my/finalizer"])
        await remove(c, "Foreground")
        assert await names(c) == ["child"]


async def test_orphans_lose_the_reference_and_stay() -> None:
    async with cluster(garbage_collector=True) as c:
        await family(c)
        await remove(c, "Orphan")
        assert await names(c) == ["child", "grandchild"]
        assert "ownerReferences" not in (await c.read(f"{CONFIG_MAPS}/child"))["metadata"]


async def test_an_object_with_one_remaining_owner_stays() -> None:
    async with cluster(garbage_collector=True) as c:
        one = await c.create(CONFIG_MAPS, config_map("one"))
        two = await c.create(CONFIG_MAPS, config_map("two"))
        await c.create(CONFIG_MAPS, config_map("child", ownerReferences=owned_by(one, two)))
        await remove(c, "Background", "one")
        references = (await c.read(f"{CONFIG_MAPS}/child"))["metadata"]["ownerReferences"]
        assert [reference["name"] for reference in references] == ["two"]
        await remove(c, "Background", "two")
        assert await names(c) == []


async def test_an_owner_that_never_existed_or_has_another_uid_is_absent() -> None:
    async with cluster(garbage_collector=True) as c:
        owner = await c.create(CONFIG_MAPS, config_map("owner"))
        owner["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
        await c.create(CONFIG_MAPS, config_map("child", ownerReferences=owned_by(owner)))
        assert await names(c) == ["owner"]


async def test_custom_resources_have_owners_too() -> None:
    async with cluster(garbage_collector=True) as c:
        await c.create(DEFINITIONS, definition())
        await c.advance(2)
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 1}}
        widget = await c.create(WIDGETS, {**body, "metadata": {"name": "widget"}})
        reference = owned_by(widget)[0] | {"apiVersion": "example.com/v1", "kind": "Widget"}
        await c.create(CONFIG_MAPS, config_map("child", ownerReferences=[reference]))
        assert await names(c) == ["child"]
        await c.api.delete(f"{WIDGETS}/widget")
        await c.settle()
        assert await names(c) == []
        await c.api.delete(f"{DEFINITIONS}/widgets.example.com")
        await c.advance(2)
        assert await c.code(WIDGETS) == 404


async def test_a_namespace_is_emptied_pods_first_then_deleted() -> None:
    async with cluster(garbage_collector=True, kubelet=KubeletOptions()) as c:
        await c.create(NAMESPACES, {"metadata": {"name": "short"}})
        inside = "/api/v1/namespaces/short"
        await c.create(f"{inside}/configmaps", config_map("c"))
        await c.create(f"{inside}/pods", pod())
        await c.advance(1)
        await c.api.delete(inside)
        await c.settle()
        found = (await c.read(inside))["status"]
        remaining = {one["type"]: one for one in found["conditions"]}["NamespaceContentRemaining"]
        assert remaining["message"] == (
            "Some resources are remaining: pods. has 1 resource instances"
        )
        assert await c.code(f"{inside}/configmaps/c") == 200
        await c.advance(31)
        assert await c.code(inside) == 404
        assert await c.code(f"{inside}/configmaps/c") == 404
        assert await c.items(PODS) == []


async def test_an_object_with_a_finalizer_keeps_its_namespace() -> None:
    async with cluster(garbage_collector=True) as c:
        await c.create(NAMESPACES, {"metadata": {"name": "long"}})
        held = "/api/v1/namespaces/long/configmaps"
        await c.create(held, config_map("c", finalizers=["my/finalizer"]))
        await c.api.delete("/api/v1/namespaces/long")
        await c.settle()
        await c.api.patch(f"{held}/c", {"metadata": {"finalizers": None}})
        await c.advance(15)
        assert await c.code("/api/v1/namespaces/long") == 404
