"""Which kinds of pods carry a label: an index over those label keys that somebody asks about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.snapshot.pod_index import PodKind

T = TypeVar("T")

#: Label keys that are indexed; the least recently asked one goes first. Labels such as the name of
#: a pod make each pod a kind of its own, and an index over them that nobody asks is a waste.
KEYS_MAX: Final = 32


class KindsByLabel(Generic[T]):
    """Something of each kind, found by any of the kind's labels."""

    def __init__(self, kinds: Mapping[PodKind, T]) -> None:
        #: All there are; whoever keeps them says what comes and goes.
        self._kinds: Final = kinds
        self._by_key: Final[dict[str, dict[str, dict[PodKind, T]]]] = {}

    def find(self, labels: Iterable[tuple[str, str]]) -> list[T]:
        """Of all kinds with one of these labels, each once."""
        found: dict[PodKind, T] = {}
        for key, value in labels:
            by_value = self._by_key.pop(key, None)
            if by_value is None:
                if len(self._by_key) >= KEYS_MAX:
                    del self._by_key[next(iter(self._by_key))]
                by_value = {}
                for kind, its in self._kinds.items():
                    if key in kind.labels:
                        by_value.setdefault(kind.labels[key], {})[kind] = its
            self._by_key[key] = by_value
            found.update(by_value.get(value, {}))
        return list(found.values())

    def add(self, kind: PodKind, its: T) -> None:
        """A kind has come."""
        for key, by_value in self._by_key.items():
            if key in kind.labels:
                by_value.setdefault(kind.labels[key], {})[kind] = its

    def remove(self, kind: PodKind) -> None:
        """A kind has gone."""
        for key, by_value in self._by_key.items():
            value = kind.labels.get(key)
            if value is not None:
                kinds = by_value[value]
                del kinds[kind]
                if not kinds:
                    del by_value[value]
