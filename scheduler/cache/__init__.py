"""The scheduler's own copy of the cluster: the API server's objects, and assumed pods."""

from scheduler.cache.cache import Cache, CacheCorruptedError, CacheError, CacheStatistics
from scheduler.cache.debugger import CacheDifference, compare, dump_nodes, dump_pods

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
