"""The paths of the port and their answers. Nothing is served below a path that is not listed.

    /healthz /livez /readyz     health checks, all together; below each path, one by one
    /metrics                    all metrics, or with ?name[]=NAME some of them
    /metrics/resources          requests and limits of every pod; empty unless this one schedules
    /metrics/slis               results of the health checks
    /configz                    the configuration in use
    /flagz /statusz             the flags, and the versions and the age of the process: see `zpages`
    /version                    the version that decides: ours alone
    /debug/pprof/ /debug/flags  unless profiling is off: see `profiling`
    /debug/pods[/NS/NAME]       pods that have a story, and the story of one pod: ours alone
    /debug/podgroups/NS/NAME    the story of a pod group: ours alone
    /debug/shadow               comparisons with another scheduler, in shadow mode: ours alone
    /debug/ui                   a page for people, which polls /debug/ui/state and, for the pod
                                that it shows, /debug/ui/pods/NS/NAME: ours alone

Upstream's paths answer to every method, as they do upstream; our own paths to GET and HEAD. The
answer names a failed check; its reason is in the log, and at the path of the single check, which
needs permission.
Source: kube-scheduler `app/server.go` (`newEndpointsHandler`), apiserver `server/mux`,
`pkg/server/healthz/healthz.go`, component-base `configz`, `metrics/prometheus/slis`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from scheduler.api.field import quoted
from scheduler.config import SchedulerVersion
from scheduler.config.encode import encode_config, go_numbers, internal_config
from scheduler.metrics.exposition import family_text
from scheduler.metrics.instruments import Kind, Metric
from scheduler.serving.profiling import Profiling
from scheduler.serving.replies import (
    bytes_reply,
    empty_reply,
    error_reply,
    json_reply,
    not_found,
    status_reply,
    text_reply,
)
from scheduler.serving.zpages import Flagz, Statusz

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from aiohttp import web

    from scheduler.clock import Clock
    from scheduler.config import EffectiveVersion, FeatureGates, KubeSchedulerConfiguration
    from scheduler.metrics import SchedulerMetrics

    Handler: TypeAlias = Callable[[web.BaseRequest], web.Response]

_log: Final = logging.getLogger(__name__)

#: The content type of upstream's Prometheus library.
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_POD_RESOURCES: Final = "/metrics/resources"
_PODS: Final = "/debug/pods"
_POD_GROUPS: Final = "/debug/podgroups"
_UI: Final = "/debug/ui"
_UI_PODS: Final = f"{_UI}/pods"
_JSON: Final = "application/json"
_HTML: Final = "text/html; charset=utf-8"
_READS: Final = frozenset({"GET", "HEAD"})

_CHECK: Final = Metric(
    *("kubernetes_healthcheck", Kind.GAUGE, ("name", "type"), "STABLE"),
    "This metric records the result of a single healthcheck.",
)
_CHECKS_TOTAL: Final = Metric(
    *("kubernetes_healthchecks_total", Kind.COUNTER, ("name", "status", "type"), "STABLE"),
    "This metric records the results of all healthcheck.",
)


class ServedScheduler(Protocol):
    """The scheduler behind the endpoints, as `SchedulerApp` is; read anew for every request."""

    @property
    def metrics(self) -> SchedulerMetrics: ...

    @property
    def effective_version(self) -> EffectiveVersion: ...

    @property
    def has_synced(self) -> bool: ...

    @property
    def leader_election_problem(self) -> Callable[[], str] | None:
        """Return a check of this leader: its error text, if any; None without leader election."""

    def metrics_text(self, names: Collection[str]) -> bytes:
        """Return the metrics of these names, or all of them without names."""

    async def pod_resources_text(self) -> bytes | None:
        """Return the page /metrics/resources; None before this one may schedule."""

    def story(self, namespace: str, name: str) -> bytes | None:
        """Return the story of a pod as JSON; None for a pod without one."""

    def group_story(self, namespace: str, name: str) -> bytes | None:
        """Return the story of a pod group as JSON; None for a group without one."""

    def known_stories(self) -> Sequence[str]:
        """Return the pods that have a story, as `namespace/name`."""

    def ui_state(self) -> bytes:
        """Return the state for the page /debug/ui as JSON."""

    def ui_pod(self, namespace: str, name: str) -> bytes | None:
        """Return a pod for the page /debug/ui as JSON; None for a pod without a story."""

    def shadow_report(self) -> bytes | None:
        """Return the page /debug/shadow as JSON; None without shadow mode."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A named check; `check` returns the error, or an empty text."""

    name: str
    check: Callable[[], str]

    def answer(self, _: web.BaseRequest) -> web.Response:
        if problem := self.check():
            return error_reply(f"internal server error: {problem}", status=500)
        return text_reply("ok", nosniff=False)


class HealthCounts(NamedTuple):
    """The numbers of passes and failures of a check, and its last result."""

    passed: int = 0
    failed: int = 0
    passes: bool = True


class HealthEndpoint:
    """All checks of one path. `counts` are the results by name, for /metrics/slis."""

    def __init__(self, name: str, checks: Sequence[HealthCheck]) -> None:
        self.name: Final = name
        self.counts: Final[dict[str, HealthCounts]] = {}
        self._checks: Final = tuple(checks)

    def handlers(self) -> dict[str, Handler]:
        root = f"/{self.name}"
        return {root: self._answer} | {f"{root}/{c.name}": c.answer for c in self._checks}

    def _answer(self, request: web.BaseRequest) -> web.Response:
        """Return `ok`, or the results of all checks if one fails or if the query is `verbose`."""
        excluded = set(request.query.getall("exclude", []))
        lines, failures = [], []
        for check in self._checks:
            if check.name in excluded:
                lines.append(f"[+]{check.name} excluded: ok\n")
                continue
            problem = check.check()
            self._count(check.name, passes=not problem)
            if problem:
                lines.append(f"[-]{check.name} failed: reason withheld\n")
                failures.append(f"[-]{check.name} failed: {problem}")
            else:
                lines.append(f"[+]{check.name} ok\n")
        if unknown := sorted(excluded - {check.name for check in self._checks}):
            names = ",".join(map(quoted, unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        if failures:
            _log.info("%s check failed: %s", self.name, ",".join(failures))
            return error_reply(f"{''.join(lines)}{self.name} check failed", status=500)
        if "verbose" not in request.query:
            return text_reply("ok")
        return text_reply(f"{''.join(lines)}{self.name} check passed\n")

    def _count(self, name: str, *, passes: bool) -> None:
        passed, failed, _ = self.counts.get(name, HealthCounts())
        self.counts[name] = HealthCounts(passed + passes, failed + (not passes), passes)


class Endpoints:
    """Answers requests that are allowed. `flags` are the flags of the process with values."""

    def __init__(
        self,
        scheduler: ServedScheduler,
        config: KubeSchedulerConfiguration,
        *,
        is_shutting_down: Callable[[], bool],
        clock: Clock,
        gates: FeatureGates,
        flags: Mapping[str, str],
    ) -> None:
        self._scheduler: Final = scheduler
        self._config: Final = config
        self._version: Final = scheduler.effective_version.scheduler
        self._encode: Final = (
            encode_config if self._version >= SchedulerVersion.V1_36 else internal_config
        )
        self._started_at: Final = clock.now()
        self._health: Final = _health_endpoints(scheduler, is_shutting_down)
        self._handlers: Final[dict[str, Handler]] = {
            "/metrics": self._metrics,
            "/metrics/slis": self._slis,
            "/configz": self._configz,
            _PODS: self._known_stories,
            _UI: self._ui,
            f"{_UI}/state": self._ui_state,
            "/debug/shadow": self._shadow,
        }
        for endpoint in self._health:
            self._handlers.update(endpoint.handlers())
        if "ComponentFlagz" in gates:
            self._handlers["/flagz"] = Flagz(flags, version=self._version).answer
        if "ComponentStatusz" in gates:
            listed = [path for path in self._handlers if not path.startswith("/debug/")]
            self._handlers["/statusz"] = Statusz(
                listed, clock=clock, version=scheduler.effective_version
            ).answer
        self._handlers["/version"] = self._deciding_version
        self._profiling: Final = Profiling(clock) if config.enable_profiling else None

    async def answer(self, request: web.BaseRequest) -> web.Response:
        if self._profiling is not None and self._profiling.handles(request.path):
            return await self._profiling.answer(request)
        if request.path == _POD_RESOURCES:
            return await self._pod_resources(request)
        handler = self._handlers.get(request.path)
        if handler is not None:
            return handler(request)
        if request.path.startswith(f"{_PODS}/"):
            return self._of_object(request, _PODS, self._scheduler.story)
        if request.path.startswith(f"{_POD_GROUPS}/"):
            return self._of_object(
                request, _POD_GROUPS, self._scheduler.group_story, kind="podgroup"
            )
        if request.path.startswith(f"{_UI_PODS}/"):
            return self._of_object(request, _UI_PODS, self._scheduler.ui_pod)
        return not_found()

    def _metrics(self, request: web.BaseRequest) -> web.Response:
        if request.method == "DELETE":
            # Upstream resets its metrics then; ours belong to the scheduler.
            return error_reply("metrics cannot be reset", status=405)
        # As in Prometheus' own servers; writing all of them takes many times longer.
        names = request.query.getall("name[]", [])
        return self._metrics_reply(self._scheduler.metrics_text(names))

    async def _pod_resources(self, request: web.BaseRequest) -> web.Response:
        text = await self._scheduler.pod_resources_text()
        if text is None:
            return empty_reply()
        if request.method == "DELETE":
            # As upstream: there is nothing to reset.
            return text_reply("metrics reset\n", nosniff=False)
        return self._metrics_reply(text)

    def _slis(self, _: web.BaseRequest) -> web.Response:
        samples = [
            (name, endpoint.name, counts)
            for endpoint in self._health
            for name, counts in endpoint.counts.items()
        ]
        results = [((name, path), float(counts.passes)) for name, path, counts in samples]
        totals = [
            ((name, status, path), number)
            for name, path, counts in samples
            for status, number in (("success", counts.passed), ("error", counts.failed))
            if number
        ]
        text = family_text(_CHECK, results) + family_text(_CHECKS_TOTAL, totals)
        return self._metrics_reply(text.encode())

    def _metrics_reply(self, text: bytes) -> web.Response:
        started = {"Process-Start-Time-Unix": str(int(self._started_at))}
        return bytes_reply(text, content_type=_METRICS, headers=started)

    def _configz(self, _: web.BaseRequest) -> web.Response:
        return json_reply(
            {"componentconfig": go_numbers(self._encode(self._config, self._version))}
        )

    def _deciding_version(self, request: web.BaseRequest) -> web.Response:
        version = self._version
        names = {"major": "1", "minor": str(int(version)), "gitVersion": version.release}
        return _refuse_write(request) or json_reply(names)

    def _known_stories(self, request: web.BaseRequest) -> web.Response:
        return _refuse_write(request) or json_reply({"pods": [*self._scheduler.known_stories()]})

    def _ui(self, request: web.BaseRequest) -> web.Response:
        # Imported here: few processes are ever asked for the page.
        from scheduler.pages.html import live_page

        page = live_page().encode()
        return _refuse_write(request) or bytes_reply(page, content_type=_HTML)

    def _ui_state(self, request: web.BaseRequest) -> web.Response:
        refusal = _refuse_write(request)
        return refusal or bytes_reply(self._scheduler.ui_state(), content_type=_JSON)

    def _shadow(self, request: web.BaseRequest) -> web.Response:
        report = self._scheduler.shadow_report()
        if report is None:
            return not_found()
        return _refuse_write(request) or bytes_reply(report, content_type=_JSON)

    def _of_object(
        self,
        request: web.BaseRequest,
        parent: str,
        read: Callable[[str, str], bytes | None],
        *,
        kind: str = "pod",
    ) -> web.Response:
        """Return the JSON that `read` returns for the pod, or the pod group, of the path."""
        namespace, slash, name = request.path.removeprefix(f"{parent}/").partition("/")
        if not (namespace and slash and name) or "/" in name:
            return not_found()
        if refusal := _refuse_write(request):
            return refusal
        content = read(namespace, name)
        if content is None:
            return status_reply(
                request,
                code=404,
                reason="NotFound",
                message=f'{kind} "{namespace}/{name}" is not known to this scheduler',
                details={"name": name, "kind": f"{kind}s"},
            )
        return bytes_reply(content, content_type=_JSON)


def _health_endpoints(
    scheduler: ServedScheduler, is_shutting_down: Callable[[], bool]
) -> tuple[HealthEndpoint, ...]:
    ping = HealthCheck("ping", lambda: "")
    shutdown = HealthCheck(
        "shutdown", lambda: "process is shutting down" if is_shutting_down() else ""
    )
    handler_sync = HealthCheck(
        "sched-handler-sync",
        lambda: "" if scheduler.has_synced else "handlers are not fully synchronized",
    )
    problem = scheduler.leader_election_problem
    election = [] if problem is None else [HealthCheck("leaderElection", problem)]
    return (
        HealthEndpoint("healthz", election or [ping]),
        HealthEndpoint("livez", [ping]),
        HealthEndpoint("readyz", [*election, shutdown, handler_sync]),
    )


def _refuse_write(request: web.BaseRequest) -> web.Response | None:
    """Return the answer to other methods than GET and HEAD; None for these."""
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
