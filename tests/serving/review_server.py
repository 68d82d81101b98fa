"""An API server with tokens and permissions that records the reviews."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_SETTINGS = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


@dataclass(frozen=True)
class Failure:
    """An answer that is a failure."""

    code: int
    reason: str
    message: str

    def response(self) -> web.Response:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", **self.__dict__}
        return web.json_response(status, status=self.code)


@dataclass
class ReviewServer:
    """`tokens` maps tokens to a status of their review, `allowed` users to one of theirs."""

    tokens: dict[str, dict[str, Any] | Failure] = field(default_factory=dict)
    access: dict[str, dict[str, Any] | Failure] = field(default_factory=dict)
    settings: dict[str, str] | Failure = field(
        default_factory=lambda: Failure(403, "Forbidden", "not yours")
    )
    asked: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    async def __aenter__(self) -> ReviewServer:
        server = web.Server(self._answer, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._runner.cleanup()

    def user(self, token: str, name: str, *groups: str) -> None:
        """Make a token belong to a user."""
        user = {"username": name, "groups": list(groups)}
        self.tokens[token] = {"authenticated": True, "user": user}

    def write_kubeconfig(self, path: Path) -> str:
        """A file that leads here."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(config), encoding="utf-8")
        return str(path)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.path == _SETTINGS:
            if isinstance(self.settings, Failure):
                return self.settings.response()
            return web.json_response({"kind": "ConfigMap", "data": self.settings})
        review = json.loads(await request.text())
        self.asked.append(review)
        spec = review["spec"]
        if request.path == _TOKENS:
            status = self.tokens.get(spec["token"], {"authenticated": False})
        else:
            assert request.path == _ACCESS
            status = self.access.get(spec["user"], {"allowed": False})
        if isinstance(status, Failure):
            return status.response()
        return web.json_response({**review, "status": status}, status=201)
