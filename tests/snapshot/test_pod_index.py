"""Counts of pods are right after any history; a weight function is called once per pod kind."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.pod_affinity import AffinityTerm
from scheduler.api.selectors import EVERYTHING, NOTHING, Requirement, Selector
from scheduler.snapshot import PodInfo, pod_index
from scheduler.snapshot.columns import Slot
from scheduler.snapshot.pod_index import LABEL_KEYS_MAX, AffinityTermIndex, PodIndex
from scheduler.snapshot.pod_kind import PodKind
from scheduler.testing import make_pod, snapshot_of
from scheduler.testing.builders import make_node
from tests.thoroughness import examples


class Labelled(NamedTuple):
    """Counts the pods of a namespace with a label of some value."""

    value: str
    namespaces: frozenset[str] | None = frozenset({"default"})
    needs_affinity_terms: bool = False

    def __call__(self, kind: PodKind) -> int:
        """Return 1 for a pod that is counted."""
        in_view = self.namespaces is None or kind.namespace in self.namespaces
        return int(in_view and kind.labels.get("app") == self.value)


class AntiAffinityTerms(NamedTuple):
    """Counts required anti-affinity terms."""

    namespaces: None = None
    needs_affinity_terms: bool = True

    def __call__(self, kind: PodKind) -> int:
        """Return the number of terms."""
        return len(kind.affinity.required_anti_affinity)


class Wanting(NamedTuple):
    """Counts the pods with one of some labels, and names the labels."""

    wanted_labels: frozenset[tuple[str, str]]
    namespaces: None = None
    needs_affinity_terms: bool = False

    def __call__(self, kind: PodKind) -> int:
        """Return 1 for a pod that is counted."""
        return int(not self.wanted_labels.isdisjoint(kind.labels.items()))


class Using(NamedTuple):
    """Counts the uses of some terms."""

    terms: frozenset[AffinityTerm]
    namespaces: None = None
    needs_affinity_terms: bool = True

    def __call__(self, kind: PodKind) -> int:
        """Return the number of terms."""
        return sum(term in self.terms for term in kind.affinity.required_anti_affinity)


def _pod(name: str, app: str = "a", *, namespace: str = "default", key: str = "") -> PodInfo:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return PodInfo(
        make_pod(
            name,
            namespace=namespace,
            labels={"app": app},
            **({"affinity": affinity} if key else {}),
        )
    )


def _on(*pods: PodInfo) -> dict[str, PodInfo]:
    return {pod.uid: pod for pod in pods}


def test_pods_that_are_alike_are_of_one_kind() -> None:
    first, second = _pod("p", key="zone"), _pod("q", key="zone")
    assert first.kind is second.kind
    assert first.kind is first.assigned_to("n").kind
    others = (_pod("p", "b", key="zone"), _pod("p", namespace="x"), _pod("p"), _pod("p", key="h"))
    assert len({first.kind, *(pod.kind for pod in others)}) == 5


def test_counts_follow_pods_and_a_rule_runs_once_for_each_kind() -> None:
    asked: list[str] = []

    class Asked(Labelled):
        def __call__(self, kind: PodKind) -> int:
            asked.append(kind.labels["app"])
            return super().__call__(kind)

    index, rule = PodIndex(), Asked("a")
    index.set_pods(0, _on(_pod("p"), _pod("q"), _pod("r", "b")))
    assert index.counts(rule)[:2].tolist() == [2, 0]
    index.set_pods(1, _on(*(_pod(f"s{number}") for number in range(5))))
    index.set_pods(0, _on(_pod("q")))
    assert index.counts(rule)[:2].tolist() == [1, 5]
    assert asked == ["a", "b"]
    index.set_pods(1, _on(_pod("t", "c")))
    assert index.counts(rule)[:2].tolist() == [1, 0]
    assert asked == ["a", "b", "c"]
    index.check()


def test_only_the_namespaces_and_kinds_that_matter_are_looked_at() -> None:
    index = PodIndex()
    index.set_pods(0, _on(_pod("p"), _pod("q", namespace="other"), _pod("r", key="zone")))
    assert index.counts(Labelled("a"))[0] == 2
    assert index.counts(Labelled("a", None))[0] == 3
    assert index.counts(AntiAffinityTerms())[0] == 1
    index.set_pods(20, _on(_pod("s", key="zone"), _pod("t", namespace="other")))
    assert index.counts(Labelled("a"))[20] == 1
    assert index.counts(AntiAffinityTerms())[20] == 1
    index.check()


def test_pods_with_equal_affinity_share_their_terms() -> None:
    first, second = _pod("p", key="zone"), _pod("q", key="zone")
    labelled = PodInfo(make_pod("r", labels={"name": "r"}, affinity=first.pod.spec.affinity))
    assert labelled.kind is not first.kind
    assert labelled.kind.affinity is first.kind.affinity is second.kind.affinity
    assert _pod("p", namespace="other", key="zone").kind.affinity is not first.kind.affinity


def test_rules_that_name_labels_run_for_no_other_kinds() -> None:
    asked: list[str] = []

    class Asked(Wanting):
        def __call__(self, kind: PodKind) -> int:
            asked.append(kind.labels["app"])
            return super().__call__(kind)

    index, rule = PodIndex(), Asked(frozenset({("app", "a")}))
    kinds = [_pod(f"p{number}", f"app-{number}", key="zone") for number in range(20)]
    index.set_pods(0, _on(*kinds, _pod("p", "a")))
    assert index.counts(rule)[0] == 1
    assert asked == ["a"]
    others = [_pod(f"q{number}", f"other-{number}") for number in range(20)]
    index.set_pods(1, _on(*others, _pod("q", "a", key="zone")))
    assert index.counts(rule)[:2].tolist() == [1, 1]
    assert asked == ["a", "a"]
    terms = index.anti_affinity_terms.matching("default", {"app": "app-7"}, {})["zone"]
    assert index.counts(Using(terms))[:2].tolist() == [1, 0]
    index.set_pods(2, _on(*kinds[5:10]))
    assert index.counts(Using(terms))[:3].tolist() == [1, 0, 1]
    index.check()


def test_terms_are_those_of_existing_pods() -> None:
    index = PodIndex()
    index.set_pods(0, _on(_pod("p", key="zone"), _pod("q", key="zone"), _pod("r", "b", key="host")))
    assert (len(index.anti_affinity_terms), len(index.affinity_terms)) == (2, 0)
    index.set_pods(0, _on(_pod("q", key="zone")))
    assert len(index.anti_affinity_terms) == 1
    index.keep_only([1])
    assert len(index.anti_affinity_terms) == 0


def test_the_least_recently_used_rule_is_forgotten_and_may_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_index, "WEIGHTS_MAX", 2)
    index = PodIndex()
    index.set_pods(0, _on(_pod("p"), _pod("q", "b"), _pod("r", "c")))
    for _ in range(2):
        for app in "abc":
            assert index.counts(Labelled(app))[0] == 1
    pods = _on(_pod("p"), _pod("q", "b"), _pod("r", "c"), _pod("s"))
    index.set_pods(0, pods)
    assert index.counts(Labelled("a"))[0] == 2
    index.check()


def test_a_snapshot_counts_in_scheduling_order() -> None:
    nodes = [make_node("a", zone="z"), make_node("b", zone="z"), make_node("c", zone="y")]
    pods = [make_pod("p", node_name="c", labels={"app": "a"})]
    snapshot = snapshot_of(nodes, pods)
    counts = dict(zip(snapshot.names, snapshot.count_pods(Labelled("a")).tolist(), strict=True))
    assert counts == {"a": 0, "b": 0, "c": 1}


def test_a_large_cluster_without_pods_is_counted_too() -> None:
    snapshot = snapshot_of([make_node(f"node-{i}") for i in range(100)])
    assert snapshot.count_pods(Labelled("a")).tolist() == [0] * 100


_steps = st.tuples(
    st.integers(0, 40), st.frozensets(st.tuples(st.integers(0, 9), st.sampled_from("abc")))
)


@settings(max_examples=examples(60))
@given(st.lists(_steps, max_size=25))
def test_counts_are_right_after_any_history(
    history: list[tuple[int, frozenset[tuple[int, str]]]],
) -> None:
    index = PodIndex()
    labels, terms = frozenset({("app", "a"), ("app", "c")}), _pod("p", "b", key="zone")
    using = Using(frozenset(terms.kind.affinity.required_anti_affinity))
    rules = (Labelled("a"), Labelled("b", None), AntiAffinityTerms(), Wanting(labels), using)
    for step, (slot, chosen) in enumerate(history):
        pods = {
            str(number): _pod(f"p{number}", app, key="zone" if number % 3 else "")
            for number, app in chosen
        }
        index.set_pods(slot, pods)
        if step % 5 == 4:
            index.keep_only(range(20))
        index.counts(rules[step % 5])
        index.check()


def _wanting(*labels: tuple[str, str]) -> Wanting:
    return Wanting(frozenset(labels))


def test_kinds_are_found_by_each_of_their_labels_once() -> None:
    index = PodIndex()
    web = PodInfo(make_pod("p", labels={"app": "web", "tier": "x"}))
    index.set_pods(Slot(0), _on(web, _pod("q", "db"), PodInfo(make_pod("r"))))
    assert index.counts(_wanting(("app", "web"), ("tier", "x")))[0] == 1
    assert index.counts(_wanting(("app", "web"), ("app", "db")))[0] == 2
    assert index.counts(_wanting(("app", "cache"), ("name", "web")))[0] == 0
    assert index.counts(_wanting())[0] == 0


def test_a_label_key_that_was_evicted_is_indexed_again() -> None:
    index = PodIndex()
    index.set_pods(Slot(0), _on(_pod("p", "web")))
    assert index.counts(_wanting(("app", "web")))[0] == 1
    keys = [(f"key-{number}", "x") for number in range(LABEL_KEYS_MAX)]
    assert index.counts(_wanting(*keys))[0] == 0
    index.set_pods(Slot(0), {})
    assert index.counts(_wanting(("app", "web"), ("app", "x")))[0] == 0
    index.set_pods(Slot(1), _on(_pod("q", "web")))
    assert index.counts(_wanting(("app", "web"), ("app", "y")))[1] == 1


def term(*requirements: Requirement, key: str = "zone") -> AffinityTerm:
    selector = Selector(requirements) if requirements else EVERYTHING
    return AffinityTerm(frozenset({"own"}), selector, key, NOTHING)


WEB = term(Requirement("app", "In", ("web",)))
WEB_OR_DB = term(Requirement("tier", "Exists"), Requirement("app", "In", ("web", "db")), key="host")
UNTIERED = term(Requirement("tier", "DoesNotExist"))
ALL = term(key="host")
NOBODY = AffinityTerm(frozenset({"own"}), NOTHING, "rack", NOTHING)


def test_terms_are_found_by_the_pod_they_mean() -> None:
    terms = AffinityTermIndex()
    terms.add([WEB, WEB_OR_DB, UNTIERED, NOBODY])
    assert terms.matching("own", {"app": "web"}, {}) == {"zone": {WEB, UNTIERED}}
    assert terms.matching("own", {"app": "db", "tier": "x"}, {}) == {"host": {WEB_OR_DB}}
    assert terms.matching("other", {"app": "web"}, {}) == {}
    assert len(terms) == 4


def test_a_term_is_kept_until_its_last_user_is_removed() -> None:
    terms = AffinityTermIndex()
    terms.add([WEB])
    terms.add([WEB])
    terms.remove([WEB])
    assert terms.matching("own", {"app": "web"}, {}) == {"zone": {WEB}}
    terms.remove([WEB])
    assert not terms.matching("own", {"app": "web"}, {})
    assert len(terms) == 0


@settings(max_examples=examples(60))
@given(
    st.lists(st.lists(st.sampled_from((WEB, WEB_OR_DB, UNTIERED, ALL, NOBODY)), max_size=3)),
    st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(("web", "db", "x"))),
    st.data(),
)
def test_the_index_finds_the_same_terms_as_a_search_of_all(
    users: Sequence[Sequence[AffinityTerm]], labels: dict[str, str], data: st.DataObject
) -> None:
    terms = AffinityTermIndex()
    for user in users:
        terms.add(user)
    gone = data.draw(st.integers(0, len(users)))
    for user in users[:gone]:
        terms.remove(user)
    left = {term for user in users[gone:] for term in user}
    expected: dict[str, set[AffinityTerm]] = {}
    for used in left:
        if used.matches("own", labels, {}):
            expected.setdefault(used.topology_key, set()).add(used)
    assert terms.matching("own", labels, {}) == expected
    assert all((used in terms) == (used in left) for used in (WEB, WEB_OR_DB, UNTIERED, ALL))
