"""The answers of the port, byte for byte those of kube-scheduler v1.36.3 where it has them."""

import json
import logging
from collections.abc import AsyncIterator

import aiohttp
import pytest

from scheduler.serving.http_server import SchedulerServer, create_listener
from tests.serving.served import GROUP_STORY, METRICS, RESOURCES, STORY, UI_POD, UI_STATE, Served


class Client:
    """Asks the port."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self.headers: dict[str, str] = {}

    async def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
        """The status, the type of the content, and the content."""
        async with self._session.request(method, self._url + path, headers=headers) as response:
            self.headers = dict(response.headers)
            return response.status, response.headers.get("Content-Type", ""), await response.text()


TEXT = "text/plain; charset=utf-8"


@pytest.fixture
def scheduler() -> Served:
    return Served()


@pytest.fixture
async def client(scheduler: Served) -> AsyncIterator[Client]:
    endpoints = scheduler.endpoints()
    server = SchedulerServer(endpoints, create_listener("127.0.0.1", None))
    async with server, aiohttp.ClientSession() as session:
        yield Client(session, server.url)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/healthz", "ok"),
        ("/livez", "ok"),
        ("/readyz", "ok"),
        ("/healthz?verbose", "[+]ping ok\nhealthz check passed\n"),
        ("/livez?verbose=", "[+]ping ok\nlivez check passed\n"),
        (
            "/readyz?verbose",
            "[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n",
        ),
        (
            "/readyz?verbose&exclude=shutdown&exclude=zzz&exclude=aaa",
            "[+]shutdown excluded: ok\n[+]sched-handler-sync ok\n"
            'warn: some health checks cannot be excluded: no matches for "aaa","zzz"\n'
            "readyz check passed\n",
        ),
        ("/healthz/ping", "ok"),
        ("/livez/ping", "ok"),
        ("/readyz/shutdown", "ok"),
        ("/readyz/sched-handler-sync", "ok"),
    ],
)
async def test_health_checks_have_upstreams_texts(client: Client, path: str, body: str) -> None:
    assert await client.ask(path) == (200, TEXT, body)
    is_single = path.count("/") == 2
    assert client.headers.get("X-Content-Type-Options") == (None if is_single else "nosniff")
    assert client.headers["Cache-Control"] == "no-cache, private"


async def test_it_is_not_ready_before_the_first_lists(
    client: Client, scheduler: Served, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler.has_synced = False
    body = "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n"
    with caplog.at_level(logging.INFO):
        assert await client.ask("/readyz") == (500, TEXT, body)
    assert "handlers are not fully synchronized" in caplog.text
    assert await client.ask("/readyz/sched-handler-sync") == (
        500,
        TEXT,
        "internal server error: handlers are not fully synchronized\n",
    )
    assert (await client.ask("/readyz?exclude=sched-handler-sync"))[2] == "ok"
    assert (await client.ask("/healthz"))[2] == "ok"


async def test_it_is_not_ready_after_a_signal_to_stop(client: Client, scheduler: Served) -> None:
    scheduler.is_shutting_down = True
    status, _, body = await client.ask("/readyz")
    assert (status, body.splitlines()[0]) == (500, "[-]shutdown failed: reason withheld")
    assert (await client.ask("/readyz/shutdown"))[2] == (
        "internal server error: process is shutting down\n"
    )


async def test_leader_election_has_a_health_check(scheduler: Served) -> None:
    problem = ""
    scheduler.leader_election_problem = lambda: problem
    endpoints = scheduler.endpoints()
    server = SchedulerServer(endpoints, create_listener("127.0.0.1", None))
    async with server, aiohttp.ClientSession() as session:
        client = Client(session, server.url)
        verbose = "[+]leaderElection ok\nhealthz check passed\n"
        assert await client.ask("/healthz?verbose") == (200, TEXT, verbose)
        assert (await client.ask("/healthz/ping"))[0] == 404
        names = [line.split()[0] for line in (await client.ask("/readyz?verbose"))[2].splitlines()]
        assert names[:3] == ["[+]leaderElection", "[+]shutdown", "[+]sched-handler-sync"]
        assert (await client.ask("/livez?verbose"))[2].startswith("[+]ping ok\n")
        problem = "failed election to renew leadership on lease kube-scheduler"
        failed = "[-]leaderElection failed: reason withheld\nhealthz check failed\n"
        assert await client.ask("/healthz") == (500, TEXT, failed)
        assert (await client.ask("/readyz"))[0] == 500
        assert (await client.ask("/livez"))[0] == 200
        assert (await client.ask("/healthz/leaderElection"))[2] == (
            "internal server error: failed election to renew leadership on lease kube-scheduler\n"
        )


async def test_metrics_are_prometheus_text(client: Client) -> None:
    kind = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
    assert await client.ask("/metrics") == (200, kind, METRICS.decode())
    some = "/metrics?name[]=up&name[]=down"
    assert await client.ask(some) == (200, kind, "['up', 'down']")
    assert client.headers["Process-Start-Time-Unix"] == "1795387450"
    assert await client.ask("/metrics/resources") == (200, kind, RESOURCES.decode())
    assert (await client.ask("/metrics", "DELETE"))[0] == 405


async def test_resources_of_pods_are_shown_by_the_leader_alone(
    client: Client, scheduler: Served
) -> None:
    assert await client.ask("/metrics/resources", "DELETE") == (200, TEXT, "metrics reset\n")
    assert "X-Content-Type-Options" not in client.headers
    scheduler.leads = False
    for method in ("GET", "DELETE"):
        assert await client.ask("/metrics/resources", method) == (200, "", "")
        assert client.headers["Content-Length"] == "0"


async def test_results_of_health_checks_are_counted(client: Client, scheduler: Served) -> None:
    assert (await client.ask("/metrics/slis"))[2] == ""
    await client.ask("/healthz")
    await client.ask("/readyz")
    scheduler.has_synced = False
    await client.ask("/readyz")
    _, _, body = await client.ask("/metrics/slis")
    assert [line for line in body.splitlines() if not line.startswith("# HELP")] == [
        "# TYPE kubernetes_healthcheck gauge",
        'kubernetes_healthcheck{name="ping",type="healthz"} 1',
        'kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 0',
        'kubernetes_healthcheck{name="shutdown",type="readyz"} 1',
        "# TYPE kubernetes_healthchecks_total counter",
        'kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 1',
        'kubernetes_healthchecks_total{name="sched-handler-sync",status="error",type="readyz"} 1',
        'kubernetes_healthchecks_total{name="sched-handler-sync",status="success",type="readyz"} 1',
        'kubernetes_healthchecks_total{name="shutdown",status="success",type="readyz"} 2',
    ]


async def test_the_configuration_is_shown_in_its_versioned_form(client: Client) -> None:
    status, kind, body = await client.ask("/configz")
    assert (status, kind) == (200, "application/json")
    assert body.startswith(
        '{"componentconfig":{"kind":"KubeSchedulerConfiguration",'
        '"apiVersion":"kubescheduler.config.k8s.io/v1","parallelism":16,'
        '"leaderElection":{"leaderElect":true,'
    )
    assert '"qps":50,"burst":100}' in body
    profile = json.loads(body)["componentconfig"]["profiles"][0]
    assert profile["schedulerName"] == "default-scheduler"
    assert profile["pluginConfig"][0]["args"]["kind"] == "DefaultPreemptionArgs"


async def test_the_version_that_decides_is_named(client: Client) -> None:
    status, kind, body = await client.ask("/version")
    assert (status, kind) == (200, "application/json")
    assert json.loads(body) == {"major": "1", "minor": "36", "gitVersion": "v1.36.3"}
    assert (await client.ask("/version", "PUT"))[0] == 405


@pytest.mark.parametrize(
    "path", ["/", "/nosuch", "/healthz/", "/healthz/none", "/configz/x", "/debug/pods/a",
             "/debug/pods/a/b/c", "/debug/pods//b", "/debug", "/debug/ui/",
             "/debug/ui/pods", "/debug/ui/pods/a"],
)  # fmt: skip
async def test_other_paths_are_not_found(client: Client, path: str) -> None:
    assert await client.ask(path) == (404, TEXT, "404 page not found\n")


async def test_upstreams_paths_answer_to_any_method(client: Client) -> None:
    assert await client.ask("/healthz", "POST") == (200, TEXT, "ok")
    assert (await client.ask("/configz", "PUT"))[0] == 200
    assert await client.ask("/healthz", "HEAD") == (200, TEXT, "")
    assert client.headers["Content-Length"] == "2"


async def test_a_pod_has_a_story(client: Client) -> None:
    assert await client.ask("/debug/pods/default/web") == (
        200,
        "application/json",
        STORY.decode(),
    )
    assert (await client.ask("/debug/pods"))[2] == '{"pods":["default/web"]}'


async def test_a_pod_group_has_a_story(client: Client) -> None:
    status, kind, body = await client.ask("/debug/podgroups/default/gang")
    assert (status, kind, body) == (200, "application/json", GROUP_STORY.decode())
    assert (await client.ask("/debug/podgroups/default/web"))[0] == 404


async def test_a_pod_without_a_story_is_not_found(client: Client) -> None:
    status, kind, body = await client.ask("/debug/pods/default/nobody")
    assert (status, kind) == (404, "application/json")
    assert json.loads(body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pod "default/nobody" is not known to this scheduler',
        "reason": "NotFound",
        "details": {"name": "nobody", "kind": "pods"},
        "code": 404,
    }


async def test_the_page_is_served_with_its_state_and_its_pods(client: Client) -> None:
    status, kind, page = await client.ask("/debug/ui")
    assert (status, kind) == (200, "text/html; charset=utf-8")
    assert 'data-live="ui"' in page
    assert (await client.ask("/debug/ui/state"))[1:] == ("application/json", UI_STATE.decode())
    path = "/debug/ui/pods/default/web"
    assert (await client.ask(path))[1:] == ("application/json", UI_POD.decode())
    assert (await client.ask("/debug/ui/pods/default/nobody"))[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "/debug/pods",
        "/debug/pods/default/web",
        "/debug/ui",
        "/debug/ui/state",
        "/debug/ui/pods/default/web",
    ],
)
async def test_stories_are_only_read(client: Client, path: str) -> None:
    status, _, body = await client.ask(path, "POST")
    assert (status, client.headers["Allow"]) == (405, "GET, HEAD")
    assert json.loads(body)["reason"] == "MethodNotAllowed"
    assert (await client.ask(path, "HEAD"))[0] == 200


async def test_a_status_is_indented_for_people(client: Client) -> None:
    path = "/debug/pods/default/nobody"
    head = '{\n  "kind": "Status",\n  "apiVersion": "v1",\n  "metadata": {},\n'
    for agent in ("curl/8.5.0", "Mozilla/5.0 (X11)", "Wget/1.21"):
        assert (await client.ask(path, **{"User-Agent": agent}))[2].startswith(head)
    compact = (await client.ask(f"{path}?pretty=0", **{"User-Agent": "curl/8"}))[2]
    assert compact.startswith('{"kind":"Status",')
    assert compact.endswith("}\n")
    assert (await client.ask(f"{path}?pretty=true"))[2].startswith(head)


async def test_a_defect_is_an_answer_and_not_the_end(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert await client.ask("/debug/pods/default/broken") == (
        500,
        TEXT,
        "This request caused apiserver to panic. Look in the logs for details.\n",
    )
    assert "RuntimeError: a defect" in caplog.text
    assert (await client.ask("/healthz"))[2] == "ok"
