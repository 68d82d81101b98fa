"""A dump with the slices and classes of two vendors' drivers is served as it was."""

from pathlib import Path

import aiohttp
import yaml

from fakeapi import FakeApiServer, ManualClock, ServerOptions

from ..api_client import ApiClient

DUMP = Path(__file__).with_name("dumps") / "devices.yaml"
PUBLISHED = DUMP.with_name("published_slices.yaml")
GROUP = "/apis/resource.k8s.io/v1"
PLURALS = {"ResourceSlice": "resourceslices", "DeviceClass": "deviceclasses"}


async def test_slices_and_classes_of_a_dump_keep_their_content(
    session: aiohttp.ClientSession,
) -> None:
    dumped = yaml.safe_load(DUMP.read_text(encoding="utf-8"))["items"]
    async with FakeApiServer(clock=ManualClock(), load=[DUMP]) as server:
        api = ApiClient(session, server.url)
        for obj in dumped:
            path = f"{GROUP}/{PLURALS[obj['kind']]}/{obj['metadata']['name']}"
            served = (await api.get(path)).body
            assert served["spec"] == obj["spec"]
        slices = (await api.get(f"{GROUP}/resourceslices")).body["items"]
        assert len(slices) == 3
        query = {"fieldSelector": "spec.driver=dra.net,spec.nodeName=gpu-worker-0"}
        (chosen,) = (await api.get(f"{GROUP}/resourceslices", **query)).body["items"]
        assert chosen["spec"]["devices"][0]["attributes"]["dra.net/rdma"] == {"bool": True}


async def test_published_slices_of_two_vendors_load_in_their_versions(
    session: aiohttp.ClientSession,
) -> None:
    dumped = yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))["items"]
    options = ServerOptions(runtime_config=["resource.k8s.io/v1beta1=true"])
    async with FakeApiServer(clock=ManualClock(), load=[PUBLISHED], options=options) as server:
        api = ApiClient(session, server.url)
        for obj in dumped:
            path = f"/apis/{obj['apiVersion']}/resourceslices/{obj['metadata']['name']}"
            assert (await api.get(path)).body["spec"] == obj["spec"]
        amd = (await api.get(f"{GROUP}/resourceslices/amd-2-gpu.amd.com-fk4fq")).body
        (device,) = amd["spec"]["devices"]
        assert device["attributes"]["partitionProfile"] == {"string": "dpx_nps1"}
