"""The scheduler's own view of the cluster, ahead of the API server by the pods it has assumed."""

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
