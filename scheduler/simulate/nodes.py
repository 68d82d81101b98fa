"""The nodes that a command line names: by name, or by labels as kubectl reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.api.selectors import Requirement, Selector
from scheduler.explain.cluster import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scheduler.api.core import Node, Pod

_MIRROR: str = "kubernetes.io/config.mirror"


def named_nodes(nodes: Iterable[Node], names: Iterable[str]) -> list[Node]:
    """Return the nodes of these names, in their order; raises `ClusterError` if one is unknown."""
    known = {node.metadata.name: node for node in nodes}
    wanted = list(dict.fromkeys(names))
    if unknown := [name for name in wanted if name not in known]:
        raise ClusterError(f"there is no node {', '.join(unknown)}")
    return [known[name] for name in wanted]


def selected_nodes(nodes: Iterable[Node], text: str) -> list[Node]:
    """Return the nodes that a label selector selects, by name. Raises `ClusterError` for none."""
    selector = Selector(_requirements(text))
    found = [node for node in nodes if selector.matches(node.metadata.labels)]
    if not found:
        raise ClusterError(f"no node has the labels {text}")
    return sorted(found, key=lambda node: node.metadata.name)


def is_static(pod: Pod) -> bool:
    """True for the mirror of a static pod: neither drains nor owners touch it."""
    return _MIRROR in pod.metadata.annotations


def _requirements(text: str) -> Iterator[Requirement]:
    for part in text.split(","):
        key, equals, value = part.replace("==", "=").partition("=")
        negated = key.endswith("!") if equals else key.startswith("!")
        key = key.strip("! ")
        if not key:
            raise ClusterError(f"{text}: expected labels as in KEY=VALUE,KEY!=VALUE,KEY")
        if equals:
            yield Requirement(key, "NotIn" if negated else "In", (value.strip(),))
        else:
            yield Requirement(key, "DoesNotExist" if negated else "Exists", ())
