"""Each invariant can be broken: a wrong scheduler breaks it, and ours does not in the same case."""

import functools
from collections.abc import Callable

import pytest
import yaml

from conformance.format.case import Case, case_of
from conformance.invariants import INVARIANTS, Violation, violations
from conformance.invariants.judge import NotObserved
from conformance.run.observation import Observation, observe
from conformance.targets import target_kind
from conformance.targets.target import TargetOptions
from tests.conformance import schedulers, wrong_schedulers
from tests.conformance.cases import in_process

_BOUND_LABELS = "labels: {app: web}"
_ANTI_AFFINITY = """affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
  {labelSelector: {matchLabels: {app: web}}, topologyKey: kubernetes.io/hostname}]}}"""
_AFFINITY = _ANTI_AFFINITY.replace("podAntiAffinity", "podAffinity")
_SPREAD = """spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname,
  whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]}"""
_BUDGET = """object: {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b,
  namespace: default}, spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}, status:
  {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1}}"""

_CLAIM = """object: {apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: NAME,
  namespace: default}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}"""
_DEVICES = [
    "object: {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {}}",
    """object: {apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {
  driver: gpu.example.com, nodeName: a, pool: {name: a, generation: 1, resourceSliceCount: 1},
  devices: [{name: gpu-0}]}}""",
    _CLAIM.replace("NAME", "c"),
    _CLAIM.replace("NAME", "d"),
]

#: Invariant, wrong scheduler, cluster, the new pod.
_TABLE: list[tuple[str, Callable[..., object], list[str], str]] = [
    (
        "no_overcommit",
        schedulers.binds_all_to_a,
        ["node: {name: a, cpu: 1}", "node: {name: b}"],
        "cpu: 2",
    ),
    (
        "no_overcommit",
        schedulers.binds_all_to_a,
        ["node: {name: a, pods: 1}", "node: {name: b}", "pod: {name: q, node: a}"],
        "",
    ),
    (
        "no_port_conflict",
        schedulers.binds_all_to_a,
        ["node: {name: a}", "pod: {name: q, node: a, host_ports: [80]}"],
        "host_ports: [{hostPort: 80, hostIP: 10.0.0.1}]",
    ),
    (
        "taints_respected",
        schedulers.binds_all_to_a,
        ["node: {name: a, taints: ['gpu=yes:NoSchedule']}"],
        "tolerations: [{key: gpu, value: 'no'}]",
    ),
    (
        "taints_respected",
        schedulers.binds_all_to_a,
        ["node: {name: a, unschedulable: true}"],
        "",
    ),
    (
        "node_affinity_held",
        schedulers.binds_all_to_a,
        ["node: {name: a, labels: {size: '1'}}"],
        "node_affinity: {required: [{matchExpressions: [{key: size, operator: Gt, "
        "values: ['3']}]}]}",
    ),
    (
        "pod_affinity_held",
        schedulers.binds_all_to_a,
        ["node: {name: a}", "node: {name: b}", f"pod: {{name: q, node: b, {_BOUND_LABELS}}}"],
        _AFFINITY,
    ),
    (
        "pod_anti_affinity_held",
        schedulers.binds_all_to_a,
        ["node: {name: a}", f"pod: {{name: q, node: a, {_BOUND_LABELS}}}"],
        _ANTI_AFFINITY,
    ),
    (
        "pod_anti_affinity_held",
        schedulers.binds_all_to_a,
        ["node: {name: a}", f"pod: {{name: q, node: a, {_ANTI_AFFINITY}}}"],
        _BOUND_LABELS,
    ),
    (
        "hard_spread_held",
        schedulers.binds_all_to_a,
        ["node: {name: a}", "node: {name: b}", f"pod: {{name: q, node: a, {_BOUND_LABELS}}}"],
        f"{_BOUND_LABELS}, {_SPREAD}",
    ),
    (
        "volumes_reachable",
        schedulers.binds_all_to_a,
        ["node: {name: a}"],
        "spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: missing}}]}",
    ),
    (
        "victims_of_lower_priority",
        wrong_schedulers.preempts_all,
        ["node: {name: a}", "pod: {name: q, node: a}"],
        "",
    ),
    (
        "victims_minimal",
        wrong_schedulers.preempts_all,
        ["node: {name: a, cpu: 2}", "pod: {name: q, node: a, cpu: 1}", "pod: {name: r, node: a}"],
        "cpu: 2, priority: 10",
    ),
    (
        "budgets_violated_only_if_unavoidable",
        wrong_schedulers.preempts_all,
        [
            "node: {name: a, cpu: 1}",
            "node: {name: b, cpu: 1}",
            f"pod: {{name: q, node: a, cpu: 1, {_BOUND_LABELS}}}",
            "pod: {name: r, node: b, cpu: 1}",
            _BUDGET,
        ],
        "cpu: 1, priority: 10",
    ),
    ("bound_pods_reported_as_scheduled", wrong_schedulers.reports_bound, ["node: {name: a}"], ""),
    (
        "victims_asked_once",
        wrong_schedulers.preempts_twice,
        ["node: {name: a}", "pod: {name: q, node: a}"],
        "",
    ),
    (
        "claims_held",
        schedulers.binds_all_to_a,
        ["node: {name: a}", *_DEVICES],
        "spec: {resourceClaims: [{name: d, resourceClaimName: c}]}",
    ),
    (
        "devices_given_once",
        wrong_schedulers.gives_one_device_to_all,
        ["node: {name: a}", *_DEVICES],
        "spec: {resourceClaims: [{name: x, resourceClaimName: c}, "
        "{name: y, resourceClaimName: d}]}",
    ),
    (
        "nominated_room_kept",
        wrong_schedulers.binds_the_unimportant,
        [
            "node: {name: a, cpu: 1}",
            "pod: {name: q, cpu: 1, priority: 10, node_selector: {disk: ssd}, "
            "status: {nominatedNodeName: a}}",
        ],
        "cpu: 1",
    ),
    ("events_agree", wrong_schedulers.boasts, ["node: {name: a}"], ""),
    ("no_pod_lost", schedulers.binds_nothing, ["node: {name: a}"], ""),
    ("no_pod_lost", schedulers.binds_all_to_a, ["node: {name: b}"], ""),
    ("no_pod_starved", wrong_schedulers.reports_all, ["node: {name: a}"], ""),
    (
        "feasibility_monotone_in_capacity",
        wrong_schedulers.likes_small_nodes,
        ["node: {name: a}"],
        "",
    ),
    (
        "verdicts_independent_of_order_and_names",
        wrong_schedulers.likes_early_names,
        ["node: {name: a}", "node: {name: b}"],
        "",
    ),
]


def _case(cluster: list[str], pod: str) -> Case:
    text = "".join(f"- {item}\n" for item in cluster)
    raw = {
        "name": "one-pod",
        "source": "nowhere",
        "cluster": yaml.safe_load(text),
        "steps": yaml.safe_load(
            f"[{{create: [pod: {{name: p{', ' if pod else ''}{pod}}}]}}, {{advance: 15s}}]"
        ),
    }
    return case_of(raw, area="tests", origin="here")


def _violations(case: Case, options: TargetOptions) -> list[Violation]:
    return violations(case, functools.partial(observe, kind=target_kind(options)))


@pytest.mark.parametrize(
    ("name", "wrong", "cluster", "pod"),
    _TABLE,
    ids=[f"{name}-{number}" for number, (name, *_) in enumerate(_TABLE)],
)
def test_a_wrong_scheduler_breaks_it(
    name: str, wrong: Callable[..., object], cluster: list[str], pod: str
) -> None:
    broken = _violations(_case(cluster, pod), in_process(wrong))
    assert name in [each.invariant for each in broken]
    for each in broken:
        assert each.text
        assert each.expect


@pytest.mark.parametrize(
    ("cluster", "pod"),
    [(cluster, pod) for _, _, cluster, pod in _TABLE],
    ids=[f"{name}-{number}" for number, (name, *_) in enumerate(_TABLE)],
)
def test_our_scheduler_does_not(cluster: list[str], pod: str) -> None:
    assert _violations(_case(cluster, pod), TargetOptions()) == []


def test_an_empty_selector_of_a_spread_constraint_selects_all_pods() -> None:
    """Upstream counts none, and so does our scheduler (kubernetes#141340)."""
    cluster = ["node: {name: a}", "node: {name: b, unschedulable: true}", "pod: {name: q, node: a}"]
    spread = _SPREAD.replace("{matchLabels: {app: web}}", "{}")
    (broken,) = _violations(_case(cluster, spread), TargetOptions())
    assert broken.invariant == "hard_spread_held"


def test_comparisons_share_the_run_that_they_compare_with() -> None:
    case = _case(["node: {name: a}"], "cpu: 1")
    runs: list[Case] = []

    def observed(one: Case) -> Observation:
        runs.append(one)
        return observe(one, target_kind(TargetOptions()))

    assert violations(case, observed) == []
    # The case, which has one decision, with larger nodes, and with other names.
    assert len(runs) == 3


def test_every_invariant_can_be_broken() -> None:
    assert {"evictions_end", *(name for name, *_ in _TABLE)} == {*INVARIANTS}


def test_pods_that_evict_each_other_are_noticed() -> None:
    pods = [{"create": [{"pod": {"name": name}}]} for name in ("p", "q", "p")]
    case = case_of(
        {
            "name": "two",
            "source": "nowhere",
            "cluster": [{"node": {"name": "a"}}],
            "steps": [part for step in pods for part in (step, {"wait_until_settled": None})],
        },
        area="tests",
        origin="here",
    )
    broken = _violations(case, in_process(wrong_schedulers.preempts_all))
    texts = [each.text for each in broken if each.invariant == "evictions_end"]
    assert texts == ["pods p and q evict each other"]


def test_every_invariant_has_a_sentence_and_a_source() -> None:
    for each in INVARIANTS.values():
        assert each.sentence.endswith(".")
        assert each.source


def test_a_scheduler_that_dies_is_no_pass() -> None:
    case = _case(["node: {name: a}"], "labels: {}")
    poisoned = case_of(
        {**case.raw, "steps": [{"create": [{"pod": {"name": "poison"}}]}]},
        area="tests",
        origin="here",
    )
    with pytest.raises(NotObserved, match="choked on poison"):
        _violations(poisoned, in_process(schedulers.binds_all_to_a))
