"""Name the pods that keep a pod off a node, for `kubesched-explain`."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.framework.interface import Remedy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduler.api.selectors import Selector
    from scheduler.plugins.inter_pod_affinity.filtering import FilterState
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_kind import PodKind

_PODS_NAMED: Final = 3
_HOSTNAME: Final = "kubernetes.io/hostname"


class BlockingPods:
    """The pods whose anti-affinity, or against which the incoming pod's, applies in each domain."""

    def __init__(self, counts: FilterState, nodes: Nodes) -> None:
        self._counts: Final = counts
        #: By topology key and value: the pods that the incoming pod avoids, and the others.
        self._avoided: Final[defaultdict[tuple[str, str], list[str]]] = defaultdict(list)
        self._avoiding: Final[defaultdict[tuple[str, str], list[str]]] = defaultdict(list)
        self._by_domain: Final[dict[tuple[str, str], Remedy | None]] = {}
        keys_by_kind: dict[PodKind, tuple[list[str], list[str]]] = {}
        for node in nodes:
            for pod in node.pods:
                keys = keys_by_kind.get(pod.kind)
                if keys is None:
                    keys = keys_by_kind[pod.kind] = self._keys(pod.kind)
                for found, blocked in zip((self._avoided, self._avoiding), keys, strict=True):
                    for key in blocked:
                        if key in node.labels:
                            found[key, node.labels[key]].append(pod.key)

    def _keys(self, other: PodKind) -> tuple[list[str], list[str]]:
        """Return the topology keys by which a pod is avoided, and by which it avoids."""
        kind, namespace_labels, required = self._counts.incoming
        avoided = [key for key, rule in required.anti_affinity.items() if rule(other)]
        avoiding = {
            term.topology_key
            for term in other.affinity.required_anti_affinity
            if term.matches(kind.namespace, kind.labels, namespace_labels)
        }
        return avoided, sorted(avoiding)

    def remedies(self, node: NodeInfo) -> Iterator[Remedy]:
        """Yield the changes after which the node is acceptable."""
        yield from self._affinity(node)
        for key in dict.fromkeys((*self._counts.anti_affinity, *self._counts.existing)):
            if key not in node.labels:
                continue
            domain = (key, node.labels[key])
            if domain not in self._by_domain:
                self._by_domain[domain] = self._anti_affinity(domain)
            if (remedy := self._by_domain[domain]) is not None:
                yield remedy

    def _anti_affinity(self, domain: tuple[str, str]) -> Remedy | None:
        avoided, avoiding = self._avoided.get(domain, ()), self._avoiding.get(domain, ())
        pods = list(dict.fromkeys((*avoided, *avoiding)))
        return _anti_affinity(domain, pods, is_own=not avoiding) if pods else None

    def _affinity(self, node: NodeInfo) -> Iterator[Remedy]:
        incoming, row = self._counts.incoming, np.array([node.base_row])
        lacking = [key for key in self._counts.affinity if key not in node.labels]
        for key in lacking:
            yield Remedy(f"label {key}", 1.0, f"drop the affinity over {key}", f"label {key}")
        is_first = not any(domains.total for domains in self._counts.affinity.values())
        if is_first and incoming.required.affinity(incoming.kind):
            return
        wanted = dict.fromkeys(_text(t.selector) for t in incoming.kind.affinity.required_affinity)
        for key, domains in self._counts.affinity.items():
            if key not in lacking and not domains.at(row)[0]:
                domain = f"{key}={node.labels[key]}"
                pod = f"a pod with {' and '.join(wanted)}"
                text = f"{domain} has no pod with {' and '.join(wanted)}"
                yield Remedy(text, 1.0, f"drop the affinity over {key}", f"{pod} in {domain}", text)


def _anti_affinity(domain: tuple[str, str], pods: Sequence[str], *, is_own: bool) -> Remedy:
    key, value = domain
    names = ", ".join(pods[:_PODS_NAMED])
    if (rest := len(pods) - _PODS_NAMED) > 0:
        names += f" and {rest:,} more"
    return Remedy(
        f"anti-affinity: {names} in {key}={value}",
        len(pods) / (len(pods) + 1),
        f"drop the anti-affinity over {key}" if is_own else "",
        f"move {names} out of {key}={value}",
        f"anti-affinity over {key}" if key == _HOSTNAME else "",
    )


def _text(selector: Selector) -> str:
    return " and ".join(r.text for r in selector.requirements) or "any labels"
