"""The LRU cache: a limit, and the least recently used entry is evicted."""

from scheduler.lru_cache import LruCache


def test_the_least_recently_used_entry_is_evicted() -> None:
    cache: LruCache[str, int] = LruCache(2)
    assert cache.put("a", 1) is None
    assert cache.put("b", 2) is None
    assert cache.touch("a") == 1
    assert cache.put("c", 3) == 2
    assert cache.touch("b") is None
    assert dict(cache) == {"a": 1, "c": 3}


def test_an_entry_that_is_replaced_evicts_no_other() -> None:
    cache: LruCache[str, int] = LruCache(2)
    for key in ("a", "b", "a"):
        assert cache.put(key, 1) is None
    assert list(cache) == ["b", "a"]
