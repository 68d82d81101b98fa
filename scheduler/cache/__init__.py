"""The scheduler's own copy of the cluster: the API server's objects, and assumed pods."""

from scheduler.cache.cache import Cache, CacheStatistics
from scheduler.cache.debugger import CacheDifference, compare, dump_nodes, dump_pods
from scheduler.cache.errors import CacheCorruptedError, CacheError

__all__ = [
    "Cache",
    "CacheCorruptedError",
    "CacheDifference",
    "CacheError",
    "CacheStatistics",
    "compare",
    "dump_nodes",
    "dump_pods",
]
