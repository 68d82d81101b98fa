"""A filter call to an extender that is sent whole nodes, and returns all of them as objects."""

import msgspec

from scheduler.client import NODES
from scheduler.client.decoding import JsonKeepingDecoder
from scheduler.clock import SystemClock
from scheduler.config import Extender
from scheduler.extenders import HTTPExtender
from scheduler.extenders.http_client import HTTPClient
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod, snapshot_of

__all__ = ["ExtenderCall"]

#: So many images make a node of 9 KB, as in a real cluster.
_IMAGES = 40


class _Client(HTTPClient):
    """Answers at once, without a connection."""

    answer = b""

    async def post(self, verb: str, body: bytes) -> bytes:
        return self.answer


class ExtenderCall:
    """The call; `run` makes it."""

    def __init__(self, nodes_total: int) -> None:
        decoder = JsonKeepingDecoder(NODES)
        nodes = [decoder.object(_json_of_node(i), url="") for i in range(nodes_total)]
        config = Extender(url_prefix="http://extender", filter_verb="filter")
        client = _Client(config, clock=SystemClock(), environ={})
        client.answer = b'{"nodes":{"items":[%s]}}' % b",".join(node.json for node in nodes)
        self._extender = HTTPExtender(config, clock=SystemClock(), environ={})
        vars(self._extender)["client"] = client
        self._nodes = snapshot_of(nodes).nodes

    async def run(self) -> None:
        result = await self._extender.filter(PodInfo(make_pod("web")), self._nodes)
        if len(result.nodes) != len(self._nodes):
            raise RuntimeError("the extender returns all nodes")


def _json_of_node(number: int) -> bytes:
    images = [
        {"names": [f"registry.example/{image}@sha256:{image:064}", f"registry.example/{image}:v1"]}
        for image in range(_IMAGES)
    ]
    labels = {f"label-{label}": "value" for label in range(_IMAGES)}
    annotations = {f"annotation-{name}": "value" * _IMAGES for name in range(10)}
    metadata = {"name": f"node-{number}", "labels": labels, "annotations": annotations}
    return msgspec.json.encode({"metadata": metadata, "status": {"images": images}})
