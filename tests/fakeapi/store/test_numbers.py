"""The numbers that objects hold, kept by the log of changes."""

from __future__ import annotations

import random
from collections import Counter

from fakeapi.store.numbers import NumbersHeld
from fakeapi.store.store import Store
from fakeapi.types.kind import NumberRange
from fakeapi.types.objects import Json, integer, mapping

SERVICES = ("", "services")
RANGE = NumberRange(range(10, 20), last=3)
IN_ORDER = [13, 14, 15, 16, 17, 18, 19, 10, 11, 12]


class Numbers:
    """The rule, which counts the objects that it has seen."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, obj: Json) -> list[int]:
        self.seen += 1
        return [integer(mapping(obj.get("spec")).get("number"))]


def up_to_date(held: NumbersHeld) -> NumbersHeld:
    held.follow()
    return held


def holding(number: int) -> Json:
    return {"metadata": {}, "spec": {"number": number}}


def test_a_write_among_many_looks_at_the_changed_objects_only() -> None:
    store, rule = Store(resource_version=0, log_size=1000), Numbers()
    held = NumbersHeld(store.collection(SERVICES), rule)
    for number in range(500):
        store.put(SERVICES, f"s-{number}", holding(number))
    up_to_date(held)
    rule.seen = 0
    store.put(SERVICES, "s-7", holding(1000))
    store.remove(SERVICES, "s-8")
    up_to_date(held)
    assert [held.holders(number) for number in (7, 8, 9, 1000)] == [0, 0, 1, 1]
    assert rule.seen == 3


def test_numbers_are_given_in_order_and_again_when_they_are_free() -> None:
    store = Store(resource_version=0, log_size=1000)
    held = NumbersHeld(store.collection(SERVICES), Numbers())
    given = []
    for place in range(10):
        number = up_to_date(held).lowest_free(RANGE, ())
        assert number is not None
        given.append(number)
        store.put(SERVICES, f"s-{place}", holding(number))
    assert given == IN_ORDER
    assert up_to_date(held).lowest_free(RANGE, ()) is None
    for place in (4, 1):
        store.remove(SERVICES, f"s-{place}")
    assert up_to_date(held).lowest_free(RANGE, ()) == IN_ORDER[1]
    assert up_to_date(held).lowest_free(RANGE, {IN_ORDER[1]}) == IN_ORDER[4]


def test_after_any_history_the_numbers_are_those_of_the_objects() -> None:
    rng = random.Random(1)
    store = Store(resource_version=0, log_size=5)
    services = store.collection(SERVICES)
    held = NumbersHeld(services, Numbers())
    for _ in range(2000):
        key = f"s-{rng.randrange(8)}"
        step = rng.random()
        if step < 0.02:
            store.compact()
        elif step < 0.05:
            store.rewind(rng.randrange(4))
        elif step < 0.3 and key in services.revisions:
            store.remove(SERVICES, key)
        else:
            store.put(SERVICES, key, holding(rng.randrange(10, 20)))
        if rng.random() < 0.6:
            counts = Counter(
                number
                for revision in services.revisions.values()
                for number in Numbers()(revision.object)
            )
            up_to_date(held)
            assert {n: held.holders(n) for n in range(10, 20)} == {n: counts[n] for n in IN_ORDER}
            free = next((number for number in IN_ORDER if not counts[number]), None)
            assert held.lowest_free(RANGE, ()) == free


def test_a_value_derived_from_all_objects_is_computed_once_after_a_change() -> None:
    store, seen = Store(resource_version=0, log_size=10), []
    services = store.collection(SERVICES)

    def total(objects: object) -> int:
        seen.append(objects)
        return len(services.revisions)

    assert [services.derived(total) for _ in range(3)] == [0, 0, 0]
    store.put(SERVICES, "s", holding(1))
    assert [services.derived(total) for _ in range(3)] == [1, 1, 1]
    assert len(seen) == 2
