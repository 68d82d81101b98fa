"""Cluster roles made of others: their rules are those of the roles that they select.

What upstream's controller does some moments later happens at once, as a write of its own.
Source: pkg/controller/clusterroleaggregation of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .. import registry
from ..completion import complete
from ..following import follow
from ..objects import Json, labels_of, mapping, mappings, name_of
from ..options import WriteOptions
from ..registry import Target
from ..selectors import SelectorError, label_selector_of
from .rbac import CLUSTER_ROLES, GROUP
from .users import SERVER, acting_as

if TYPE_CHECKING:
    from ..registry import Registry
    from ..store import Revision

__all__ = ["AggregationController"]

_MANAGER: Final = "clusterrole-aggregation-controller"


class AggregationController:
    """Follows the cluster roles of one server."""

    def __init__(self, state: Registry) -> None:
        self._state = state
        self._roles = state.store.collection(CLUSTER_ROLES)
        follow(self._roles, self._reconcile_all)

    def _reconcile_all(self) -> None:
        """Bring the rules up to date; what that writes may be part of others, and is seen to."""
        with acting_as(SERVER):  # whoever has caused it
            while any(self._reconcile(key) for key in list(self._roles.sorted_keys())):
                pass

    def _reconcile(self, key: str) -> bool:
        """Whether the role had other rules than it should have."""
        revision = self._roles.revisions.get(key)
        if revision is None or "aggregationRule" not in revision.object:
            return False
        rules = self._aggregated(revision.object)
        if rules is None or rules == (revision.object.get("rules") or []):
            return False
        self._write(revision, rules)
        return True

    def _aggregated(self, role: Json) -> list[Json] | None:
        """The rules of those that are selected, each once; None if a selector cannot be read."""
        rules: list[Json] = []
        for selector in mappings(mapping(role["aggregationRule"]).get("clusterRoleSelectors")):
            try:
                wanted = label_selector_of(selector)
            except SelectorError:
                return None
            for key in self._roles.sorted_keys():
                other = self._roles.revisions[key].object
                if other is role or not wanted.matches(labels_of(other)):
                    continue
                rules += [rule for rule in mappings(other.get("rules")) if rule not in rules]
        return rules

    def _write(self, revision: Revision, rules: list[Json]) -> None:
        kind = self._state.kinds.find(GROUP, "v1", CLUSTER_ROLES[1])
        assert kind is not None
        name = name_of(revision.object)
        target = Target(kind, "", name, WriteOptions(), manager=_MANAGER)
        wanted = complete(kind, {**revision.object, "rules": rules})
        registry.update(self._state, target, revision, wanted)
