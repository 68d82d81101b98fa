"""Invariants that hold for a scheduler with plugins of its user's.

The judge knows the rules of the default profile. A plugin may hold a pod back that fits by these
rules, or choose victims by rules of its own; such a scheduler is not judged by the invariants that
the plugin may break.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from .violation import INVARIANTS, Invariant

if TYPE_CHECKING:
    from collections.abc import Iterable

_FILTERS: Final = ("pre_filter", "filter", "filter_nodes")
_HOLDS: Final = ("pre_enqueue", *_FILTERS, "reserve", "permit", "pre_bind")
_VICTIMS: Final = (*_FILTERS, "post_filter")
#: By invariant: the methods of plugins that may break it.
_BREAKERS: Final = {
    "victims_of_lower_priority": ("post_filter",),
    "victims_minimal": _VICTIMS,
    "budgets_violated_only_if_unavoidable": _VICTIMS,
    "nominated_room_kept": _VICTIMS,
    "evictions_end": _VICTIMS,
    "no_pod_lost": ("pre_enqueue", "permit", "pre_bind", "bind"),
    "no_pod_starved": _HOLDS,
    "feasibility_monotone_in_capacity": _HOLDS,
    "verdicts_independent_of_order_and_names": _HOLDS,
}


def left_out_for(plugins: Iterable[str | type]) -> dict[str, str]:
    """Return the invariants that plugins may break, each with the first method: `Class.filter`.

    Plugins are classes, or references `module:Class` of classes that can be imported.
    """
    left_out: dict[str, str] = {}
    for plugin in plugins:
        found = _class_of(plugin) if isinstance(plugin, str) else plugin
        for name, methods in _BREAKERS.items():
            for method in methods:
                if hasattr(found, method):
                    left_out.setdefault(name, f"{getattr(found, '__name__', found)}.{method}")
    return left_out


def invariants_with(plugins: Iterable[str | type]) -> list[Invariant]:
    """Return the invariants that hold for a scheduler with these plugins."""
    left_out = left_out_for(plugins)
    return [each for name, each in INVARIANTS.items() if name not in left_out]


def _class_of(reference: str) -> object:
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
