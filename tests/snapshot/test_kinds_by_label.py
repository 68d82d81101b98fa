"""Kinds by label: only keys that somebody asks about are indexed."""

from __future__ import annotations

from scheduler.api.pod_affinity import NO_TERMS
from scheduler.snapshot.kinds_by_label import KEYS_MAX, KindsByLabel
from scheduler.snapshot.pod_index import PodKind


def kind(**labels: str) -> PodKind:
    return PodKind("default", labels, NO_TERMS, is_terminating=False)


def test_kinds_are_found_by_each_of_their_labels_once() -> None:
    web, db, plain = kind(app="web", tier="x"), kind(app="db"), kind()
    kinds = {web: "web", db: "db", plain: "plain"}
    index = KindsByLabel(kinds)
    assert index.find([("app", "web"), ("tier", "x")]) == ["web"]
    assert index.find([("app", "web"), ("app", "db")]) == ["web", "db"]
    assert index.find([("app", "cache"), ("name", "web")]) == []
    assert index.find([]) == []


def test_kinds_may_come_and_go_before_and_after_a_key_is_asked_about() -> None:
    early, late = kind(app="web"), kind(app="web", tier="x")
    kinds = {early: "early"}
    index = KindsByLabel(kinds)
    index.add(early, "early")
    assert index.find([("app", "web")]) == ["early"]
    kinds[late] = "late"
    index.add(late, "late")
    assert index.find([("app", "web")]) == ["early", "late"]
    del kinds[early]
    index.remove(early)
    assert index.find([("app", "web")]) == ["late"]
    del kinds[late]
    index.remove(late)
    assert index.find([("app", "web"), ("tier", "x")]) == []


def test_a_key_that_was_forgotten_may_be_asked_about_again() -> None:
    web = kind(app="web")
    kinds = {web: "web"}
    index = KindsByLabel(kinds)
    assert index.find([("app", "web")]) == ["web"]
    assert not index.find([(f"key-{number}", "x") for number in range(KEYS_MAX)])
    del kinds[web]
    index.remove(web)
    assert index.find([("app", "web")]) == []
