"""pytest collects files of cases when asked, and has the fixtures `cluster` and `scheduler`."""

import subprocess
import sys
from pathlib import Path

import pytest

# pytester forgets the modules that a test imports, and extension modules load only once.
import conformance.reports.terminal
import conformance.testing
import scheduler.testing.in_process

LOADED = (conformance.testing, conformance.reports.terminal, scheduler.testing.in_process)

pytest_plugins = ["pytester"]

#: Plugins of ours that have nothing to do with the tests inside the tests.
PLAIN = ("-p", "no:randomly", "-p", "no:asyncio")

CASES = """
area: small
cases:
- name: fits
  source: ours
  cluster:
  - node: {name: a}
  steps:
  - create: [pod: {name: p}]
  - expect: {pod: p, bound_to: a}
- name: does-not-fit
  source: ours
  steps:
  - create: [pod: {name: p}]
  - expect: {pod: p, bound_to: a}
- name: takes-a-configuration
  source: ours
  config: {percentageOfNodesToScore: 100}
  steps:
  - create: [pod: {name: p}]
  - expect: {pod: p, not_bound: true}
"""


@pytest.fixture
def cases(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makefile(".yaml", small=CASES, service="apiVersion: v1\nkind: Service\n")
    pytester.makeini("[pytest]\nkubesched_cases = *.yaml\n")
    return pytester


def test_a_project_that_asks_for_nothing_has_no_file_opened(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of cases for another program, in a folder that the command line names."""
    folder = pytester.mkdir("theirs")
    (folder / "small.yaml").write_text(CASES, encoding="utf-8")
    pytester.makepyfile("def test_of_theirs(): pass")
    opened: list[str] = []
    read_bytes = Path.read_bytes

    def recorded(path: Path) -> bytes:
        opened.append(path.suffix)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", recorded)
    for arguments in ((), ("theirs", "."), (str(pytester.path),)):
        pytester.runpytest(*PLAIN, *arguments).assert_outcomes(passed=1)
    assert ".yaml" not in opened


@pytest.mark.parametrize(
    ("setting", "collected"),
    [
        ("mine", ["mine/deep/b.yml::fits", "mine/a.yaml::fits"]),
        ("mine/", ["mine/deep/b.yml::fits", "mine/a.yaml::fits"]),
        ("mine/a.yaml other/*.yaml", ["mine/a.yaml::fits", "other/c.yaml::fits"]),
        (".", ["mine/deep/b.yml::fits", "mine/a.yaml::fits", "other/c.yaml::fits"]),
        ("deep ine a.yaml", []),
    ],
)
def test_a_project_names_files_folders_or_patterns(
    pytester: pytest.Pytester, setting: str, collected: list[str]
) -> None:
    for name in ("mine/a.yaml", "mine/deep/b.yml", "other/c.yaml"):
        path = pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CASES, encoding="utf-8")
    pytester.makeini(f"[pytest]\nkubesched_cases = {setting}\n")
    result = pytester.runpytest(*PLAIN, "--collect-only", "-q")
    found = [line for line in result.outlines if line.endswith("::fits")]
    assert sorted(found) == sorted(collected)


def test_a_file_of_the_command_line_needs_no_setting(pytester: pytest.Pytester) -> None:
    pytester.makefile(".yaml", small=CASES)
    pytester.runpytest(*PLAIN, "small.yaml").assert_outcomes(passed=2, failed=1)
    pytester.runpytest(*PLAIN, "./small.yaml::fits").assert_outcomes(passed=1)


def test_each_case_of_a_file_is_a_test(cases: pytest.Pytester) -> None:
    result = cases.runpytest(*PLAIN, "-v")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["small.yaml::fits PASSED*", "small.yaml::does-not-fit FAILED*"])
    result.stdout.fnmatch_lines(["*steps?1?: pod p: expected on a, is not bound"])
    result.stdout.fnmatch_lines(["*PodScheduled=False Unschedulable: no nodes available*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*runtest*")


def test_one_case_is_selected_by_its_id(cases: pytest.Pytester) -> None:
    cases.runpytest(*PLAIN, "small.yaml::fits").assert_outcomes(passed=1)


@pytest.mark.slow
def test_workers_share_the_cases(cases: pytest.Pytester) -> None:
    cases.runpytest(*PLAIN, "-n", "2").assert_outcomes(passed=2, failed=1)


def test_a_mistake_in_a_file_is_one_line(pytester: pytest.Pytester) -> None:
    pytester.makefile(".yaml", wrong=CASES.replace("bound_to", "bound"))
    result = pytester.runpytest(*PLAIN, "wrong.yaml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*wrong.yaml: case fits: *unknown field bound; did you mean*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_another_scheduler_is_a_command(cases: pytest.Pytester) -> None:
    command = f"{sys.executable} -c 0 --kubeconfig {{kubeconfig}}"
    result = cases.runpytest(*PLAIN, "--scheduler-command", command)
    result.assert_outcomes(failed=2, skipped=1)
    result.stdout.fnmatch_lines(["*did not start: exit status 0*"])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--scheduler-command", ""), "*expected a command, got an empty text*"),
        (("--scheduler-plugin", "gone:Gone"), "*--plugin: gone:Gone: No module named*"),
    ],
)
def test_wrong_options_are_named(
    cases: pytest.Pytester, arguments: tuple[str, ...], error: str
) -> None:
    result = cases.runpytest(*PLAIN, *arguments)
    assert result.ret != 0
    assert error.strip("*") in result.stdout.str() + result.stderr.str()


def test_the_fixtures_run_a_scheduler_in_virtual_and_in_real_time(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        not_on_a="""
        from scheduler import Plugin, unschedulable

        class NotOnA(Plugin):
            def filter(self, state, pod, node):
                return unschedulable("node a") if node.name == "a" else None
        """,
        test_it="""
        import json, time, urllib.request
        import pytest
        from not_on_a import NotOnA

        def test_in_virtual_time(cluster):
            cluster.node("a", cpu=1).pod("p", cpu=2).not_bound()
            cluster.advance("1h").node("b").advance("10s").expect(pod="p", bound_to="b")

        @pytest.mark.scheduler(plugins=[NotOnA], config={"percentageOfNodesToScore": 100})
        def test_with_a_plugin(cluster):
            cluster.node("a").pod("p").not_bound()

        @pytest.mark.scheduler(plugins=["not_on_a:NotOnA"])
        def test_in_real_time(fake_api, scheduler):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                   "spec": {"containers": [{"name": "c", "image": "i"}]}}
            nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                      "status": {"allocatable": {"pods": "9"}}} for name in "ab"]
            fake_api.load([*nodes, pod])
            node = None
            while node is None:
                time.sleep(0.01)
                url = fake_api.url + "/api/v1/namespaces/default/pods/p"
                with urllib.request.urlopen(url) as answer:
                    node = json.load(answer)["spec"].get("nodeName")
            assert node == "b"
            with urllib.request.urlopen(scheduler.url + "/metrics") as answer:
                assert b"scheduler_schedule_attempts_total" in answer.read()
            assert any("Starting to schedule" in line for line in scheduler.log())

        @pytest.mark.scheduler(colour="red")
        def test_with_a_wrong_marker(cluster):
            pass
        """,
    )
    result = pytester.runpytest(*PLAIN)
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(
        ["*expected only config, gates, objects, plugins, seed, got colour"]
    )


def test_objects_exist_before_the_scheduler_starts(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import urllib.request
        import pytest

        @pytest.mark.scheduler(objects=[{"node": {"name": "old"}}, {"pod": {"name": "q"}}])
        def test_objects_exist_before_the_start(cluster):
            cluster.expect(pod="q", bound_to="old", attempts=1)

        @pytest.mark.scheduler(objects=[{"apiVersion": "v1", "kind": "Namespace",
                                         "metadata": {"name": "early"}}])
        def test_objects_exist_in_real_time(fake_api, scheduler):
            with urllib.request.urlopen(fake_api.url + "/api/v1/namespaces/early") as answer:
                assert answer.status == 200
        """
    )
    pytester.runpytest(*PLAIN).assert_outcomes(passed=2)


def test_a_failure_is_not_buried_under_the_schedulers_log(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import logging
        from conformance.testing import Cluster

        def test_it(cluster):
            cluster.node("a").pod("p").bound_to("a")
            with Cluster() as another:
                another.node("a").pod("p").bound_to("a")
            logging.getLogger("mine").warning("a line of the test")
            assert False, "the error"
        """
    )
    for arguments, is_shown in (((), False), (("--log-level=INFO",), True)):
        shown = pytester.runpytest(*PLAIN, *arguments).stdout.str()
        assert "a line of the test" in shown
        assert ("Starting to schedule" in shown) == is_shown


def test_it_imports_nothing_before_a_test_needs_it() -> None:
    program = (
        "import sys, conformance.pytest_plugin;"
        "heavy = {'aiohttp', 'msgspec', 'yaml', 'scheduler'};"
        "print({name.split('.')[0] for name in sys.modules} & heavy)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout == "set()\n"
