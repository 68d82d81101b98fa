"""A bounded map whose entries run out."""

from __future__ import annotations

from scheduler.serving.expiring_cache import ExpiringCache
from scheduler.testing import VirtualClock


def test_an_entry_runs_out() -> None:
    clock = VirtualClock()
    cache: ExpiringCache[str, int] = ExpiringCache(clock=clock, entries_max=2)
    cache.put("a", 1, seconds=10.0)
    cache.put("never", 1, seconds=0.0)
    clock.advance_nowait(9.9)
    assert (cache.get("a"), cache.get("never")) == (1, None)
    clock.advance_nowait(0.1)
    assert cache.get("a") is None
    assert len(cache) == 0


def test_what_was_asked_for_longest_ago_makes_room() -> None:
    cache: ExpiringCache[str, int] = ExpiringCache(clock=VirtualClock(), entries_max=2)
    cache.put("a", 1, seconds=10.0)
    cache.put("b", 2, seconds=10.0)
    assert cache.get("a") == 1
    cache.put("c", 3, seconds=10.0)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
