"""Replace names that identify a cluster by pseudonyms, equal values by equal ones.

Replaced are the names of objects and namespaces, keys and values of labels and taints that are not
well known, images, and resources of vendors' own; also where other objects refer to them: in
selectors, affinity terms, tolerations, references and messages. Whole numbers, `true` and `false`
stay, because operators compare them. Devices, their classes and drivers, and drivers of volumes
stay, because expressions and plugins read them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..format.resources import objects, part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..api import Json

__all__ = ["Anonymiser"]

#: Domains whose label keys, taint keys and resources are the same in every cluster.
_WELL_KNOWN_DOMAINS: Final = ("kubernetes.io", "k8s.io")
_WELL_KNOWN_RESOURCES: Final = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
#: Keys of labels whose values are the same in every cluster.
_WELL_KNOWN_VALUES: Final = frozenset(
    {
        *("kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch"),
        "beta.kubernetes.io/os",
    }
)
_WELL_KNOWN_NAMES: Final = frozenset(
    {"default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler"}
)
_SYSTEM: Final = "system-"
_PLAIN: Final = re.compile(r"-?\d+|true|false|")
_QUOTED: Final = re.compile(r'"([^"]*)"')
_WORD_WITH_SLASH: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]*\w")
_REASONS: Final = re.compile(r"(\d+/\d+ nodes are available: )(.*)\.", re.DOTALL)
_BEFORE_COUNT: Final = re.compile(r", (?=\d+ )")

#: Fields with one name of an object.
_NAME_FIELDS: Final = frozenset(
    {
        *("name", "namespace", "nodeName", "nominatedNodeName", "priorityClassName", "claimName"),
        *("volumeName", "storageClassName", "persistentVolumeName", "resourceClaimName", "podName"),
        *("resourceClaimTemplateName", "podGroupName", "nodeID", "volumeHandle"),
        *("pdName", "volumeID", "diskName", "volume.kubernetes.io/selected-node", "pool"),
    }
)
#: Fields with a mapping of labels, or with a selector that is one.
_LABEL_MAPS: Final = frozenset({"labels", "matchLabels", "nodeSelector"})
_KEY_FIELDS: Final = frozenset({"topologyKey"})
_KEY_LISTS: Final = frozenset({"matchLabelKeys", "mismatchLabelKeys", "topologyKeys"})
_RESOURCE_MAPS: Final = frozenset({"requests", "limits", "allocatable", "capacity", "overhead"})
#: Lists of requirements or taints with `key` and perhaps `value` or `values`.
_REQUIREMENTS: Final = frozenset(
    {"matchExpressions", "matchLabelExpressions", "taints", "tolerations", "topology"}
)
#: Fields that are left as they are, but for the pools of allocated devices.
_DEVICES: Final = "devices"
_KEPT_FIELDS: Final = frozenset({"apiVersion", "kind", "schedulerName", "driver", "provisioner"})
#: Kinds whose names are the same in every cluster.
_VENDOR_KINDS: Final = frozenset({"csidriver", "deviceclass"})
#: Of a configuration only labels, taints and resources are replaced.
_CONFIG: Final = "config"


class Anonymiser:
    """Replaces names; one for all objects and messages of a cluster."""

    def __init__(self) -> None:
        self._pseudonyms: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def objects(self, found: Iterable[Json]) -> list[Json]:
        """Return objects with pseudonyms."""
        found = list(found)
        for obj in found:
            # The kind of an object gives the pseudonym of its name.
            kind = str(obj["kind"]).lower()
            if kind not in _VENDOR_KINDS:
                self.name(str(part(obj, "metadata").get("name", "")), kind)
        for obj in found:
            self._name_ephemeral_claims(obj)
        return [self._mapping("", obj, str(obj["kind"]).lower()) for obj in found]

    def config(self, config: Json) -> Json:
        """Return a scheduler's configuration with pseudonyms for labels, taints and resources."""
        return self._mapping("", config, _CONFIG)

    def _name_ephemeral_claims(self, pod: Json) -> None:
        """Keep the names of claims that are made of the pod's name and a volume's."""
        name = str(part(pod, "metadata").get("name", ""))
        for volume in objects(part(pod, "spec").get("volumes")):
            if "ephemeral" in volume:
                own = str(volume["name"])
                self._pseudonyms[f"{name}-{own}"] = f"{self.name(name)}-{self.name(own)}"

    def name(self, name: str, kind: str = "name") -> str:
        """Return the pseudonym of an object's name."""
        if name in _WELL_KNOWN_NAMES or name.startswith(_SYSTEM):
            return name
        return self._pseudonym(name, kind)

    def key(self, key: str) -> str:
        """Return the pseudonym of a label's or taint's key."""
        domain = key.rpartition("/")[0]
        if any(domain == known or domain.endswith(f".{known}") for known in _WELL_KNOWN_DOMAINS):
            return key
        return self._pseudonym(key, "key")

    def resource(self, resource: str) -> str:
        """Return the pseudonym of a resource."""
        domain = resource.rpartition("/")[0]
        known = not domain or resource in _WELL_KNOWN_RESOURCES
        if known or domain.endswith(_WELL_KNOWN_DOMAINS):
            return resource
        return self._pseudonym(resource, "resource", prefix="example.com/")

    def message(self, text: str) -> str:
        """Return a message with pseudonyms for quoted names, resources and keys of a domain.

        The scheduler sorts the reasons in a message, so they are sorted again.
        """

        def quoted(found: re.Match[str]) -> str:
            words = (self._pseudonyms.get(word, word) for word in found[1].split("/"))
            whole = self._pseudonyms.get(found[1])
            return f'"{whole or "/".join(words)}"'

        def slashed(found: re.Match[str]) -> str:
            return self._pseudonyms.get(found[0], found[0])

        renamed = _WORD_WITH_SLASH.sub(slashed, _QUOTED.sub(quoted, text))
        found = _REASONS.fullmatch(renamed)
        if found is None:
            return renamed
        return f"{found[1]}{', '.join(sorted(_BEFORE_COUNT.split(found[2])))}."

    def _pseudonym(self, value: str, category: str, *, prefix: str = "") -> str:
        if _PLAIN.fullmatch(value):
            return value
        if value not in self._pseudonyms:
            number = self._numbers[category] = self._numbers.get(category, 0) + 1
            self._pseudonyms[value] = f"{prefix}{category}-{number}"
        return self._pseudonyms[value]

    def _value(self, key: str, value: str) -> str:
        known = key in _WELL_KNOWN_VALUES or value in _WELL_KNOWN_NAMES
        return value if known else self._pseudonym(value, "value")

    def _field(self, name: str, value: object, kind: str) -> object:
        """Return the value of a field with pseudonyms."""
        if name in _KEPT_FIELDS or (name == "name" and kind in _VENDOR_KINDS):
            return value
        if isinstance(value, str):
            return self._text(name, value, kind)
        if name == _DEVICES:
            return self._devices(value)
        if isinstance(value, dict):
            return self._mapping(name, value, kind)
        if isinstance(value, list):
            return [self._item(name, item, kind) for item in value]
        return value

    def _text(self, name: str, value: str, kind: str) -> str:
        if kind == _CONFIG and name == "name":
            return self.resource(value)
        if name in _NAME_FIELDS:
            return self.name(value)
        if name in _KEY_FIELDS:
            return self.key(value)
        if name == "image":
            return self._pseudonym(value, "image", prefix="registry.example/")
        return value

    def _devices(self, value: object) -> object:
        """Return devices as they are, but for the names of pools: often they are those of nodes."""
        if not isinstance(value, dict) or "results" not in value:
            return value
        results = [
            {**result, "pool": self.name(str(result.get("pool", "")))}
            for result in objects(value["results"])
        ]
        return {**value, "results": results}

    def _mapping(self, name: str, value: Json, kind: str) -> Json:
        is_selector = name == "selector" and kind in ("service", "replicationcontroller")
        if name in _LABEL_MAPS or is_selector:
            return {self.key(key): self._value(key, str(each)) for key, each in value.items()}
        if name in _RESOURCE_MAPS:
            return {self.resource(key): each for key, each in value.items()}
        return {inner: self._field(inner, each, kind) for inner, each in value.items()}

    def _item(self, name: str, item: object, kind: str) -> object:
        if isinstance(item, dict):
            if name in _REQUIREMENTS:
                return self._requirement(item)
            if name == "matchFields":
                return self._each(item, "values", self.name)
            if name == "images":
                return self._each(item, "names", lambda image: self._text("image", image, kind))
            if name == "drivers":
                return {**self._mapping("", item, kind), "name": item.get("name")}
            return self._mapping("", item, kind)
        if isinstance(item, str):
            if name in _KEY_LISTS:
                return self.key(item)
            if name == "namespaces":
                return self.name(item)
        return item

    def _requirement(self, item: Json) -> Json:
        """Return a requirement on labels, a taint or a toleration with pseudonyms."""
        key = str(item.get("key", ""))
        found = {**item}
        if key:
            found["key"] = self.key(key)
        if isinstance(item.get("value"), str):
            found["value"] = self._value(key, str(item["value"]))
        return self._each(found, "values", lambda value: self._value(key, value))

    def _each(self, item: Json, name: str, convert: Callable[[str], str]) -> Json:
        values = item.get(name)
        if not isinstance(values, list):
            return item
        return {**item, name: [convert(str(value)) for value in values]}
