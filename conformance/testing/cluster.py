"""A cluster in a test: an API server, a scheduler, and steps and expectations as method calls.

    with Cluster(plugins=["my_plugin:MyPlugin"]) as cluster:
        cluster.node("n1", cpu=4).node("n2", cpu=8)
        cluster.pod("web", cpu=6).bound_to("n2")
        cluster.pod("big", cpu=9).unschedulable(message_contains="Insufficient cpu")
        cluster.node("n3", cpu=16).advance("10s").expect(pod="big", bound_to="n3", attempts=2)

Methods and keywords are the steps and the fields of a case file, see README.md. Server and
scheduler run in a thread with a virtual clock: time passes in `advance` only, and each call returns
when everything that follows from it has happened. With a scheduler that is a command, time is real.
Other clients can connect to `cluster.kubeconfig`, from any thread; `settle` waits for the effects.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from ..errors import ExpectationFailed, InputError, TargetError
from ..format.case import case_of
from ..format.expectation import pod_ref
from ..format.reading import name_in, name_of, node_of
from ..format.steps import steps_of
from ..format.validation import problem_in
from ..judge.observe import sight_of
from ..judge.tally import Tally
from ..outcome import ALL_ASPECTS
from ..run.event_log import event_log
from ..run.running import Progress, started
from ..targets import target_kind
from ..targets.quiet import QuietLoop
from ..targets.target import TargetOptions

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping, Sequence
    from pathlib import Path

    from ..api import Json
    from ..format.case import Case
    from ..format.steps import Step
    from ..judge.observe import Sight
    from ..run.running import Running

T = TypeVar("T")

_LOG_LINES_SHOWN: Final = 15


class Cluster:
    """An API server and a scheduler. A context manager; all methods block until all is settled.

    `target` is the scheduler: by default our own, in this process. `plugins` are classes, or
    references `module:Class`, that are added to its profiles. `config` is a
    KubeSchedulerConfiguration without its connection. `gates` are feature gates. `objects` exist
    before the scheduler starts: objects of the API, or short forms of a case (`{"node": {"name":
    "a"}}`). Equal `seed`s give equal runs.

    Methods raise AssertionError for an expectation that does not hold, InputError for invalid
    arguments, RequestFailed if the API server refuses a step, TargetError if the scheduler has
    ended.
    """

    def __init__(
        self,
        *,
        target: TargetOptions | None = None,
        plugins: Sequence[str | type] = (),
        config: Json | None = None,
        gates: Mapping[str, bool] | None = None,
        objects: Iterable[Json] = (),
        seed: int = 0,
        timeout_seconds: float = 60.0,
    ) -> None:
        self._options = with_plugins(target or TargetOptions(), plugins)
        settings: Json = {} if config is None else {"config": config}
        if gates:
            settings["gates"] = {**gates}
        if entries := entries_given(objects):
            settings["cluster"] = entries
        self._case = _case(settings)
        self._seed = seed
        self._timeout_seconds = timeout_seconds
        self._thread = threading.Thread(target=self._run, name="cluster", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        self._started_case: Running | None = None

    def __enter__(self) -> Cluster:
        """Start the server and the scheduler. Raises InputError and TargetError."""
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop both. Raises TargetError if the scheduler has failed or violates its invariants."""
        if self._loop is not None and self._started_case is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        if self._failure is not None and kind is None:
            raise self._failure

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig file for other clients of the API server."""
        return self._running.surroundings.directory / "kubeconfig"

    def node(self, name: str, **fields: object) -> Cluster:
        """Create a node, or with `count` several nodes. The fields are as of `node:` in a case."""
        return self.steps({"create": [{"node": {"name": name, **fields}}]})

    def pod(self, name: str, **fields: object) -> Pod:
        """Create a pod. The fields are as of `pod:` in a case."""
        self.steps({"create": [{"pod": {"name": name, **fields}}]})
        return Pod(self, name_in(str(fields.get("namespace", "")), name))

    def create(self, *objects: Json) -> Cluster:
        """Create objects of the API."""
        return self.steps({"create": [{"object": item} for item in objects]})

    def delete(self, **subject: object) -> Cluster:
        """Delete an object: `pod="web"`, `node="n1"`, `object={apiVersion, kind, name}`."""
        return self.steps({"delete": subject})

    def patch(self, patch: Json, **subject: object) -> Cluster:
        """Change an object by a merge patch, or by another with `type="json"` or `"strategic"`."""
        return self.steps({"patch": {"patch": patch, **subject}})

    def advance(self, duration: str) -> Cluster:
        """Let time pass, such as `"90s"` or `"5m"`."""
        return self.steps({"advance": duration})

    def settle(self) -> Cluster:
        """Wait until the scheduler has nothing left to do."""
        return self.steps({"wait_until_settled": None})

    def restart(self) -> Cluster:
        """End the scheduler, and start another one for the same API server."""
        return self.steps({"restart": None})

    def expect(self, **expectation: object) -> Cluster:
        """Check an expectation: `pod="web", bound_to="n1", attempts=1`."""
        __tracebackhide__ = True
        return self.steps({"expect": expectation})

    def steps(self, *steps: Json) -> Cluster:
        """Carry out steps as in a case: `{"evict": {"pod": "web"}}`."""
        __tracebackhide__ = True
        parsed = _parsed(steps)
        try:
            self._running.progress.story = ()
            self._call(self._running.carry_out(parsed))
        except ExpectationFailed as failure:
            raise AssertionError(self._call(self._text(failure))) from None
        return self

    def placements(self) -> dict[str, str]:
        """Return the node of each pod with a node; pods as `name` or `namespace/name`."""
        pods = self._call(self._running.api.list("Pod"))
        return {name_of(pod): node for pod in pods if (node := node_of(pod))}

    def sight(self, pod: str) -> Sight:
        """Return a pod with its events; `object` is None if the pod does not exist."""
        return self._call(sight_of(self._running.api, pod_ref(pod)))

    @property
    def _running(self) -> Running:
        if self._started_case is None:
            raise RuntimeError("the cluster is not running: use it inside `with`")
        return self._started_case

    def _call(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine in the thread of server and scheduler, and return its result."""
        assert self._loop is not None, "the cluster is running"
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(self._timeout_seconds)
        except TimeoutError:
            future.cancel()
            raise TargetError(f"still running after {self._timeout_seconds:g}s") from None

    async def _text(self, failure: ExpectationFailed) -> str:
        lines = [str(failure), *(f"  {line}" for line in failure.details)]
        log = self._running.target.log()
        if log:
            lines.append("  the scheduler's last lines:")
            lines += [f"    {line}" for line in log[-_LOG_LINES_SHOWN:]]
        return "\n".join(lines)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=QuietLoop) as runner:
            self._loop = runner.get_loop()
            runner.run(self._serve())

    async def _serve(self) -> None:
        try:
            kind = target_kind(self._options)
            case = self._case
            if kind.why_not(case) is not None:
                # Expectations about metrics are not possible then.
                case = msgspec.structs.replace(case, steps=())
            if (reason := kind.why_not(case)) is not None:
                raise InputError(reason)
            with event_log(None, self._case.id) as log:
                starting = started(
                    case,
                    kind,
                    seed=self._seed,
                    observer=log,
                    tally=Tally(case, ALL_ASPECTS),
                    progress=Progress(),
                    stops_at=ALL_ASPECTS,
                )
                async with starting as running:
                    around = running.surroundings
                    around.fake_server.write_kubeconfig(around.directory / "kubeconfig")
                    self._started_case = running
                    self._started.set()
                    await self._stopping.wait()
        except BaseException as failure:  # noqa: BLE001 - raised in the thread of the test
            self._failure = failure
        finally:
            self._started_case = None
            self._started.set()


class Pod:
    """A pod of a cluster. The methods are expectations, and return the pod."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster: Final = cluster
        #: `name`, or `namespace/name` outside of the namespace `default`.
        self.name: Final = name

    def bound_to(self, node: str, **more: object) -> Pod:
        """Check the pod's node."""
        __tracebackhide__ = True
        return self.expect(bound_to=node, **more)

    def bound_to_one_of(self, *nodes: str) -> Pod:
        """Check that the pod is on one of several equally good nodes."""
        __tracebackhide__ = True
        return self.expect(bound_to_one_of=list(nodes))

    def not_bound(self, **more: object) -> Pod:
        """Check that the pod has no node, and gets no node without a further change."""
        __tracebackhide__ = True
        return self.expect(not_bound=True, **more)

    def unschedulable(self, **message: str) -> Pod:
        """Check the pod's condition: `message`, `message_prefix`, `message_contains`, `reason`."""
        __tracebackhide__ = True
        return self.expect(unschedulable=message)

    def expect(self, **expectation: object) -> Pod:
        """Check an expectation; the fields are as in a case: `attempts=2`, `event={...}`."""
        __tracebackhide__ = True
        self.cluster.expect(pod=self.name, **expectation)
        return self

    @property
    def node_name(self) -> str | None:
        """The name of the pod's node."""
        return self.cluster.sight(self.name).node_name or None

    def lines(self) -> list[str]:
        """Return the pod's node, conditions and events as lines."""
        return self.cluster.sight(self.name).lines()


def with_plugins(target: TargetOptions, plugins: Iterable[str | type]) -> TargetOptions:
    """Return a target with more plugins: references `module:Class`, or classes of a module."""
    more = [
        plugin if isinstance(plugin, str) else f"{plugin.__module__}:{plugin.__qualname__}"
        for plugin in plugins
    ]
    return msgspec.structs.replace(target, plugins=(*target.plugins, *more))


def entries_given(objects: Iterable[Json]) -> list[Json]:
    """Return the entries of `cluster` for objects of the API and for short forms."""
    return [{"object": item} if "kind" in item else item for item in objects]


def _parsed(steps: Sequence[Json]) -> tuple[Step, ...]:
    """Validate and convert steps. Raises InputError."""
    _validate({"steps": [*steps]})
    return steps_of(steps, "steps")


def _case(settings: Json) -> Case:
    """Validate and convert a case, whose steps only show that metrics are read."""
    reading: Json = {"metric": "scheduler_pod_scheduled_after_flush_total", "value": 0}
    raw = _validate({**settings, "steps": [{"advance": "0s"}, {"expect": reading}]})
    return case_of(raw, area="test", origin="a test")


def _validate(content: Json) -> Json:
    """Return the content as a whole case of a file. Raises InputError."""
    raw: Json = {"name": "cluster", "source": "a test", **content}
    problem = problem_in({"area": "test", "cases": [raw]})
    if problem is not None:
        raise InputError(problem.removeprefix("case cluster: "))
    return raw
