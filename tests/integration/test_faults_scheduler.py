"""Our scheduler and a failing server: where it does better than kube-scheduler.

The common behaviour is in conformance/cases/faults; its README maps the rows of the table of faults
to tests. Time is virtual here, but for the two schedulers.
"""

import asyncio
import textwrap
from pathlib import Path

import pytest

from conformance.format.case import BUILT_IN, load_cases
from conformance.format.selection import select
from conformance.outcome import Verdict
from conformance.run.runner import Settings, run_cases
from fakeapi import FakeApiServer, ObjectChange
from fakeapi.faults import AnswerWith, Delay, Fault, Match, Observe, Reset, When
from scheduler.clock import SystemClock
from scheduler.testing.in_process import run_in_process
from tests.integration.api_client import Api

LOST_ANSWERS = {
    "reset": "reset: {after_write: true}",
    "500": "answer: {code: 500, after_write: true}",
    "503": "answer: {code: 503, after_write: true}",
    "504": "answer: {code: 504, after_write: true}",
    "garbled": "garble: {how: truncated}",
    "no-json": "garble: {how: not_json}",
}


def run(tmp_path: Path, cluster: str, steps: str) -> None:
    """Run a case against our scheduler; it must pass."""
    text = "area: own\ncases:\n- name: it\n  source: here\n"
    for name, part in (("cluster", cluster), ("steps", steps)):
        text += f"  {name}:\n" + textwrap.indent(textwrap.dedent(part).strip("\n"), "  ") + "\n"
    (tmp_path / "case.yaml").write_text(text, encoding="utf-8")
    (outcome,) = run_cases(load_cases([tmp_path / "case.yaml"]), Settings(workers=0))
    told = "\n".join((outcome.reason, *outcome.details, *outcome.log))
    assert outcome.verdict is Verdict.PASSED, told


@pytest.mark.parametrize("how", LOST_ANSWERS)
def test_row_25_a_bound_pod_is_never_said_not_to_be(tmp_path: Path, how: str) -> None:
    run(
        tmp_path,
        "- node: {name: a, cpu: 1}",
        f"""
        - inject:
          - {{name: bindings, match: {{verb: create, resource: pods/binding}}, observe: {{}}}}
          - {{name: patches, match: {{verb: patch, resource: pods/status}}, observe: {{}}}}
          - name: lost
            match: {{verb: create, resource: pods/binding}}
            when: {{times: 1}}
            {LOST_ANSWERS[how]}
        - create: [pod: {{name: web, cpu: 1}}]
        - advance: 10m
        - expect: {{fault: lost, injected: 1}}
        - expect: {{fault: bindings, injected: 1}}
        - expect: {{fault: patches, injected: 0}}
        - expect:
            pod: web
            bound_to: a
            condition: {{type: PodScheduled, status: "True", reason: "", message: ""}}
            no_event: {{reason: FailedScheduling}}
        - create: [pod: {{name: other, cpu: 1}}]
        - expect: {{pod: other, unschedulable: {{message_contains: Insufficient cpu}}}}
        """,
    )


def test_row_6_a_server_that_went_back_in_time_is_found_out(tmp_path: Path) -> None:
    """kube-scheduler goes on watching from a future version, and misses all that comes before."""
    run(
        tmp_path,
        """
        - node: {name: a, cpu: 2}
        - pod: {name: kept, cpu: 1}
        """,
        """
        - expect: {pod: kept, bound_to: a}
        - create: [pod: {name: forgotten, cpu: 1}]
        - expect: {pod: forgotten, bound_to: a}
        - inject: [restart: {lost_versions: 4}]
        - create: [pod: {name: later, cpu: 1}]
        - advance: 15m
        - expect: {pod: later, bound_to: a}
        - expect: {nodes: no_overcommit}
        """,
    )


def test_row_16_a_state_that_comes_late_does_not_undo_the_newer_one(tmp_path: Path) -> None:
    """A bound pod seems to be unbound for a moment: it is neither bound again nor lost."""
    run(
        tmp_path,
        "- node: {name: a, cpu: 1}",
        """
        - inject:
          - {name: bindings, match: {verb: create, resource: pods/binding}, observe: {}}
          - {name: late, match: {resource: pods, event: MODIFIED, name: web}, outdated: {}}
        - create: [pod: {name: web, cpu: 1}]
        - expect: {pod: web, bound_to: a}
        - expect: {fault: late, injected: {at_least: 1}}
        - advance: 5m
        - expect: {fault: bindings, injected: 1}
        - create: [pod: {name: other, cpu: 1}]
        - expect: {pod: other, unschedulable: {message_contains: Insufficient cpu}}
        - expect: {pod: web, condition: {type: PodScheduled, status: "True"}}
        """,
    )


def test_row_30_pods_wait_for_a_first_node(tmp_path: Path) -> None:
    run(
        tmp_path,
        "- pod: {name: web}",
        """
        - expect: {pod: web, unschedulable: {message: no nodes available to schedule pods}}
        - inject:
          - {match: {resource: nodes, event: ADDED}, when: {times: 1}, cut: {how: truncate}}
        - create: [node: {name: a}]
        - advance: 30s
        - expect: {pod: web, bound_to: a}
        """,
    )


def test_row_35_a_victim_is_deleted_without_an_event(tmp_path: Path) -> None:
    """kube-scheduler sometimes leaves the preemptor among the unschedulable for five minutes."""
    run(
        tmp_path,
        """
        - node: {name: a}
        - pod:
            name: victim
            node: a
            cpu: 3
            priority: 10
            spec: {terminationGracePeriodSeconds: 0}
        """,
        """
        - inject:
          - name: lost
            match: {verb: delete, resource: pods}
            when: {times: 1}
            reset: {after_write: true}
        - create: [pod: {name: preemptor, priority: 1000, cpu: 3}]
        - advance: 15s
        - expect: {fault: lost, injected: 1}
        - expect: {pod: victim, deleted: true}
        - expect: {pod: preemptor, bound_to: a}
        - expect: {nodes: no_overcommit}
        """,
    )


def test_rows_8_and_24_throttled_bindings_are_made_in_the_same_attempt(tmp_path: Path) -> None:
    """After a 429 the request was not executed; kube-scheduler retries only with a Retry-After."""
    run(
        tmp_path,
        "- node: {name: a}",
        """
        - inject:
          - name: busy
            match: {verb: create, resource: pods/binding}
            when: {times: 2}
            answer: {code: 429}
        - create: [pod: {name: web}]
        - advance: 30s
        - expect: {pod: web, bound_to: a, attempts: 1, no_event: {reason: FailedScheduling}}
        - expect: {fault: busy, injected: 2}
        """,
    )


@pytest.mark.parametrize("seed", range(4))
def test_random_failures_lose_no_pod_and_bind_none_twice(seed: int) -> None:
    (case,) = select(load_cases([BUILT_IN]), "faults/everything-fails-now-and-then")
    (outcome,) = run_cases([case], Settings(workers=0, seed=seed))
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")


async def test_row_43_of_two_schedulers_one_binds_a_pod(tmp_path: Path) -> None:
    nodes_of: dict[str, list[str]] = {}

    def note(change: ObjectChange) -> None:
        metadata, spec = change.object["metadata"], change.object.get("spec")
        if change.resource == "pods" and isinstance(spec, dict) and spec.get("nodeName"):
            assert isinstance(metadata, dict)
            nodes = nodes_of.setdefault(str(metadata["uid"]), [])
            if spec["nodeName"] not in nodes:
                nodes.append(spec["nodeName"])

    bindings = Match(verb="create", resource="pods/binding")
    faults = [
        # Slow answers make sure that both have decided before either is bound.
        Fault(match=bindings, delay=Delay(seconds=[0.0, 0.02])),
        Fault(name="bindings", match=bindings, observe=Observe()),
        Fault(match=bindings, when=When(probability=0.1), reset=Reset(after_write=True)),
        Fault(match=bindings, when=When(probability=0.1), answer=AnswerWith(code=500)),
    ]
    kubeconfig = tmp_path / "kubeconfig"
    async with FakeApiServer(seed=1, faults=faults) as server, Api.of(server) as api:
        server.write_kubeconfig(kubeconfig)
        for number in range(4):
            await api.node(f"n{number}", cpu="64")
        with server.listening(on_change=note):
            first = run_in_process(kubeconfig=kubeconfig, clock=SystemClock(), seed=1)
            second = run_in_process(kubeconfig=kubeconfig, clock=SystemClock(), seed=2)
            async with first as one, second as two:
                names = [f"p{number}" for number in range(30)]
                await asyncio.gather(*(api.pod(name) for name in names))
                for name in names:
                    assert await api.node_of(name)
                one.check()
                two.check()
        assert len(nodes_of) == len(names)
        assert all(len(nodes) == 1 for nodes in nodes_of.values())
        assert server.faults.count("bindings") > len(names), "the two got into each other's way"
