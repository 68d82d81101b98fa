"""Devices of dynamic resource allocation: pools, the allocator, and the allocated devices."""
