"""Which path shows what. A path is known or it is not: nothing is served below a known one.

    /healthz /livez /readyz     is all well, is it alive, may it be relied on (`health.py`)
    /metrics                    the scheduler's numbers, or with ?name[]=NAME some of them
    /metrics/resources          requests and limits of every pod; empty unless it may schedule
    /metrics/slis               how the health checks went
    /configz                    the configuration it runs with
    /debug/pods[/NS/NAME]       which pods it can tell of, and one pod's story: ours alone

Upstream's paths answer to every method, as upstream's do; ours to GET and HEAD.
Source: kube-scheduler `app/server.go` (`newEndpointsHandler`), apiserver `server/mux`,
component-base `configz`, `metrics/prometheus/slis`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scheduler.config.encode import encode_config
from scheduler.serving.health import PING, HealthCheck, HealthEndpoint, handler_sync, shutdown
from scheduler.serving.replies import (
    bytes_reply,
    empty_reply,
    error_reply,
    json_reply,
    not_found,
    status_reply,
    text_reply,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from aiohttp import web

    from scheduler.config import KubeSchedulerConfiguration

#: What upstream's Prometheus library says of its text format.
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_PODS: Final = "/debug/pods"
_READS: Final = frozenset({"GET", "HEAD"})

_SLIS: Final = (
    "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single "
    "healthcheck.\n"
    "# TYPE kubernetes_healthcheck gauge\n",
    "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all "
    "healthcheck.\n"
    "# TYPE kubernetes_healthchecks_total counter\n",
)


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where the endpoints get what they show; each is asked anew for every request.

    `story` returns a pod's story as JSON, or None for a pod without one; `known_stories` returns
    the pods with a story, as `namespace/name`. `metrics_text` takes the names of the metrics to
    write, none for all. `pod_resources_text` returns None before this scheduler leads.
    `leader_election_problem` returns what is wrong with a leader, or nothing; it is None without
    leader election.
    """

    config: KubeSchedulerConfiguration
    has_synced: Callable[[], bool]
    is_shutting_down: Callable[[], bool] = lambda: False
    leader_election_problem: Callable[[], str] | None = None
    metrics_text: Callable[[Collection[str]], bytes] = lambda names: b""
    pod_resources_text: Callable[[], bytes | None] = lambda: None
    story: Callable[[str, str], bytes | None] = lambda namespace, name: None
    known_stories: Callable[[], Sequence[str]] = tuple


class Endpoints:
    """Answers requests, whoever sent them. `started_at` is when the process began (epoch)."""

    def __init__(self, sources: Sources, *, started_at: float) -> None:
        self._sources: Final = sources
        self._started_at: Final = started_at
        problem = sources.leader_election_problem
        leads = [] if problem is None else [HealthCheck("leaderElection", problem)]
        ready = [shutdown(sources.is_shutting_down), handler_sync(sources.has_synced)]
        self._health: Final = (
            HealthEndpoint("healthz", leads or [PING]),
            HealthEndpoint("livez", [PING]),
            HealthEndpoint("readyz", leads + ready),
        )
        self._paths: Final[dict[str, Callable[[web.BaseRequest], web.Response]]] = {
            "/metrics": self._metrics,
            "/metrics/resources": self._pod_resources,
            "/metrics/slis": lambda _: self._numbers(self._slis()),
            "/configz": self._configz,
            _PODS: self._known_stories,
        }
        for endpoint in self._health:
            self._paths.update(endpoint.paths())

    def answer(self, request: web.BaseRequest) -> web.Response:
        """The answer to one request."""
        path = request.path
        handler = self._paths.get(path)
        if handler is not None:
            return handler(request)
        if path.startswith(f"{_PODS}/"):
            return self._story(request)
        return not_found()

    def _metrics(self, request: web.BaseRequest) -> web.Response:
        if request.method == "DELETE":
            # Upstream forgets its numbers then; ours belong to the scheduler.
            return error_reply("metrics cannot be reset", status=405)
        # As Prometheus' own servers have it; writing all of them takes many times longer.
        names = request.query.getall("name[]", [])
        return self._numbers(self._sources.metrics_text(names))

    def _pod_resources(self, request: web.BaseRequest) -> web.Response:
        text = self._sources.pod_resources_text()
        if text is None:
            return empty_reply()
        if request.method == "DELETE":
            # As upstream: there is nothing to reset.
            return text_reply("metrics reset\n", nosniff=False)
        return self._numbers(text)

    def _numbers(self, text: bytes) -> web.Response:
        started = {"Process-Start-Time-Unix": str(int(self._started_at))}
        return bytes_reply(text, content_type=_METRICS, headers=started)

    def _slis(self) -> bytes:
        samples = [
            (check, endpoint.name, counts)
            for endpoint in self._health
            for check, counts in endpoint.counts.items()
        ]
        results = sorted(
            f'kubernetes_healthcheck{{name="{check}",type="{kind}"}} {int(counts.passes)}\n'
            for check, kind, counts in samples
        )
        totals = sorted(
            f'kubernetes_healthchecks_total{{name="{check}",status="{status}",type="{kind}"}} '
            f"{number}\n"
            for check, kind, counts in samples
            for status, number in (("success", counts.passed), ("error", counts.failed))
            if number
        )
        families = [(_SLIS[0], results), (_SLIS[1], totals)]
        return "".join(header + "".join(lines) for header, lines in families if lines).encode()

    def _configz(self, _: web.BaseRequest) -> web.Response:
        return json_reply({"componentconfig": _go_numbers(encode_config(self._sources.config))})

    def _known_stories(self, request: web.BaseRequest) -> web.Response:
        return _only_read(request) or json_reply({"pods": list(self._sources.known_stories())})

    def _story(self, request: web.BaseRequest) -> web.Response:
        namespace, slash, name = request.path.removeprefix(f"{_PODS}/").partition("/")
        if not (namespace and slash and name) or "/" in name:
            return not_found()
        if refusal := _only_read(request):
            return refusal
        story = self._sources.story(namespace, name)
        if story is None:
            return status_reply(
                request,
                code=404,
                reason="NotFound",
                message=f'pod "{namespace}/{name}" is not known to this scheduler',
                details={"name": name, "kind": "pods"},
            )
        return bytes_reply(story, content_type="application/json")


def _only_read(request: web.BaseRequest) -> web.Response | None:
    """A refusal of whatever is not GET or HEAD."""
    if request.method in _READS:
        return None
    reply = status_reply(
        request,
        code=405,
        reason="MethodNotAllowed",
        message=f"{request.method.lower()} is not supported on {request.path}",
        details={},
    )
    reply.headers["Allow"] = "GET, HEAD"
    return reply


def _go_numbers(value: object) -> object:
    """JSON with numbers as Go writes them: a whole number has no decimal point."""
    match value:
        case dict():
            return {key: _go_numbers(item) for key, item in value.items()}
        case list():
            return [_go_numbers(item) for item in value]
        case float() if value.is_integer():
            return int(value)
    return value
