"""Replace names that identify a cluster by pseudonyms, equal names by equal pseudonyms.

These are replaced: the names of objects, namespaces and schedulers, keys and values of labels and
taints that are not well known, images, paths and addresses, and resources of vendors; also where
other objects refer to them: in selectors, affinity terms, tolerations, references and messages.
Whole numbers, `true` and `false` stay, because operators compare them. Devices, their classes and
drivers, and drivers of volumes stay, because expressions and plugins read them.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final

from ..format.resources import objects, part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..api import Json

#: Kubernetes' own domains of label keys, taint keys and resources.
_WELL_KNOWN_DOMAINS: Final = frozenset(
    {
        *("kubernetes.io", "k8s.io", "beta.kubernetes.io", "failure-domain.beta.kubernetes.io"),
        *("app.kubernetes.io", "apps.kubernetes.io", "batch.kubernetes.io"),
        *("node.kubernetes.io", "node.cloudprovider.kubernetes.io", "topology.kubernetes.io"),
        *("pv.kubernetes.io", "volume.kubernetes.io", "storage.kubernetes.io"),
        *("resource.kubernetes.io", "deviceclass.resource.kubernetes.io"),
        *("service.kubernetes.io", "statefulset.kubernetes.io", "scheduling.k8s.io"),
    }
)
#: All other names of this domain are those of a cluster's own roles.
_WELL_KNOWN_ROLES: Final = frozenset(
    f"node-role.kubernetes.io/{role}" for role in ("control-plane", "master", "worker")
)
_WELL_KNOWN_RESOURCES: Final = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
#: Keys of labels whose values are the same in every cluster.
_WELL_KNOWN_VALUES: Final = frozenset(
    {
        *("kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch"),
        "beta.kubernetes.io/os",
    }
)
_WELL_KNOWN_NAMES: Final = frozenset(
    {
        *("default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler"),
        *("system-cluster-critical", "system-node-critical"),
    }
)
#: Words of the scheduler's messages: outside of quotes and braces they are no names.
_MESSAGE_TEXT: Final = """
    a access affinity allocate already and another anti-affinity are at available be bind
    bound by can cannot claim claims conflict constraints could count cpu CSI did didn't disk
    domain driver due enough ephemeral-storage exceed existing extended feature features
    filter find fit for found free from gang group had has have host immediate in in-use
    installed Insufficient invalid is it label labels many match max memory minCount missing
    mode more name no node node's nodes non-existent not of on one or persistent
    PersistentVolume PersistentVolume's PersistentVolumeClaim persistentvolumeclaim
    PersistentVolumeClaims placement placements plugin plugins pod Pod's pods pools ports
    preemption pv pvc queue ReadWriteOncePod requested required resource resourceclaim
    resources rules s satisfy scheduler scheduler-enforced scheduling selector service slice
    spread storage storageclass taint taints terms that the to Too too topology unavailable
    unbound unschedulable untolerated volume volumes waiting were with zone
"""
_MESSAGE_WORDS: Final = frozenset(_MESSAGE_TEXT.split())
_PLAIN: Final = re.compile(r"-?\d+|true|false|")
_WORD: Final = re.compile(r"\w(?:[\w./'-]*\w)?")
#: A text in quotes or in braces, or else a word.
_NAMED: Final = re.compile(rf'"[^"]*"|{{[^}}]*}}|{_WORD.pattern}')
_REASONS: Final = re.compile(r"(\d+/\d+ nodes are available: )(.*)\.", re.DOTALL)
_BEFORE_COUNT: Final = re.compile(r", (?=\d+ )")

#: Fields with one name of an object.
_NAME_FIELDS: Final = frozenset(
    {
        *("name", "namespace", "nodeName", "nominatedNodeName", "priorityClassName", "claimName"),
        *("volumeName", "storageClassName", "persistentVolumeName", "resourceClaimName", "podName"),
        *("resourceClaimTemplateName", "podGroupName", "nodeID", "volumeHandle"),
        *("pdName", "volumeID", "diskName", "volume.kubernetes.io/selected-node", "pool"),
        *("schedulerName", "serviceName", "containerName", "targetPort", "targetPortal"),
        *("workloadName", "podGroupTemplateName", "uid"),
    }
)
#: Fields with a mapping of labels, or with a selector that is one.
_LABEL_MAPS: Final = frozenset({"labels", "matchLabels", "nodeSelector"})
#: Fields with an identifier that is no name: the prefix of its pseudonyms. The API checks the form.
_PREFIXES: Final = {
    "diskURI": "/subscriptions/",
    "iqn": "iqn.2000-01.example:",
    "path": "/",
    "urlPrefix": "https://example.com/",
}
_ANY_HOST: Final = frozenset({"0.0.0.0", "127.0.0.1", "::", "::1"})  # noqa: S104 - names in a case
#: The first pseudonym of an address; the block is reserved for tests.
_ADDRESS: Final = ipaddress.ip_address("198.18.0.0")
_KEY_FIELDS: Final = frozenset({"topologyKey"})
_KEY_LISTS: Final = frozenset({"matchLabelKeys", "mismatchLabelKeys", "topologyKeys"})
_RESOURCE_FIELDS: Final = frozenset({"extendedResourceName", "resourceName"})
_RESOURCE_MAPS: Final = frozenset({"requests", "limits", "allocatable", "capacity", "overhead"})
#: Lists of requirements or taints with `key` and perhaps `value` or `values`.
_REQUIREMENTS: Final = frozenset(
    {"matchExpressions", "matchLabelExpressions", "taints", "tolerations", "topology"}
)
#: Fields that are left as they are, but for the nodes and the pools of devices.
_DEVICES: Final = "devices"
_KEPT_FIELDS: Final = frozenset({"apiVersion", "kind", "driver", "provisioner"})
#: Kinds whose names are the same in every cluster.
_VENDOR_KINDS: Final = frozenset({"csidriver", "deviceclass"})
#: Of a configuration the arguments of plugins of one's own stay.
_CONFIG: Final = "config"
#: Fields of a configuration that name files and locks.
_LEFT_OUT: Final = frozenset({"kubeconfig", "tlsConfig", "resourceName", "resourceNamespace"})


class Anonymiser:
    """Replaces names; one instance serves all objects and messages of a cluster."""

    def __init__(self) -> None:
        self._pseudonyms: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def objects(self, originals: Iterable[Json]) -> list[Json]:
        """Return objects with pseudonyms."""
        originals = list(originals)
        for obj in originals:
            # The kind of an object gives the pseudonym of its name.
            kind = str(obj["kind"]).lower()
            if kind not in _VENDOR_KINDS:
                self.name(str(part(obj, "metadata").get("name", "")), kind)
        for obj in originals:
            self._name_ephemeral_claims(obj)
        return [self._mapping("", obj, str(obj["kind"]).lower()) for obj in originals]

    def config(self, config: Json) -> Json:
        """Return a scheduler's configuration with pseudonyms, without the names of files."""
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
        return name if name in _WELL_KNOWN_NAMES else self._pseudonym(name, kind)

    def key(self, key: str) -> str:
        """Return the pseudonym of a label's or taint's key."""
        domain = key.rpartition("/")[0]
        if domain in _WELL_KNOWN_DOMAINS or key in _WELL_KNOWN_ROLES:
            return key
        # A text has one pseudonym: a resource of the same name needs a domain.
        return self._pseudonym(key, "key", prefix="example.com/" if domain else "")

    def resource(self, resource: str) -> str:
        """Return the pseudonym of a resource."""
        domain = resource.rpartition("/")[0]
        if not domain or domain in _WELL_KNOWN_DOMAINS or resource in _WELL_KNOWN_RESOURCES:
            return resource
        return self._pseudonym(resource, "resource", prefix="example.com/")

    def message(self, text: str) -> str:
        """Return a message with the pseudonyms, except for the message's own words.

        The scheduler sorts the reasons in a message, so the reasons are sorted again.
        """
        renamed = _NAMED.sub(self._named, text)
        match = _REASONS.fullmatch(renamed)
        if match is None:
            return renamed
        return f"{match[1]}{', '.join(sorted(_BEFORE_COUNT.split(match[2])))}."

    def _named(self, match: re.Match[str]) -> str:
        text = match[0]
        if text[0] in '"{':
            return _WORD.sub(lambda word: self._word(word[0]), text)
        return self._word(text, own=_MESSAGE_WORDS)

    def _word(self, word: str, *, own: frozenset[str] = frozenset()) -> str:
        if word in own:
            return word
        if word in self._pseudonyms or "/" not in word:
            return self._pseudonyms.get(word, word)
        return "/".join(self._word(part, own=own) for part in word.split("/"))

    def _pseudonym(self, value: str, category: str, *, prefix: str = "") -> str:
        if _PLAIN.fullmatch(value):
            return value
        if value not in self._pseudonyms:
            number = self._numbers[category] = self._numbers.get(category, 0) + 1
            self._pseudonyms[value] = f"{prefix}{category}-{number}"
        return self._pseudonyms[value]

    def _value(self, key: str, value: str) -> str:
        is_kept = key in _WELL_KNOWN_VALUES or value in _WELL_KNOWN_NAMES
        return value if is_kept else self._pseudonym(value, "value")

    def _field(self, name: str, value: object, kind: str) -> object:
        """Return the value of a field with pseudonyms."""
        if name in _KEPT_FIELDS or (name == "name" and kind in _VENDOR_KINDS):
            return value
        if isinstance(value, str):
            return self._text(name, value, kind)
        if name == _DEVICES:
            return self._devices(value)
        if name == "parameters" and kind != _CONFIG:
            return {}  # of a driver, for the kubelet
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
        if name in _RESOURCE_FIELDS:
            return self.resource(value)
        if name in _PREFIXES:
            return self._pseudonym(value, name.lower(), prefix=_PREFIXES[name])
        if name == "hostIP":
            return self._address(value)
        if name == "image":
            return self._image(value)
        return value

    def _image(self, image: str) -> str:
        """Return the pseudonym of an image; one without a tag has the tag `latest`."""
        tagged = image if ":" in image.rpartition("/")[2] else f"{image}:latest"
        return self._pseudonym(tagged, "image", prefix="registry.example/")

    def _address(self, address: str) -> str:
        if address in _ANY_HOST or not address:
            return address
        if address not in self._pseudonyms:
            number = self._numbers["address"] = self._numbers.get("address", 0) + 1
            self._pseudonyms[address] = str(_ADDRESS + number)
        return self._pseudonyms[address]

    def _devices(self, value: object) -> object:
        """Return devices as they are, but for nodes and for pools, which often are named so."""
        if isinstance(value, list):
            return [self._some(item, "nodeName", "nodeSelector") for item in objects(value)]
        if not isinstance(value, dict):
            return value
        devices = self._some(value, "config")
        if "results" in devices:
            devices["results"] = [self._some(item, "pool") for item in objects(devices["results"])]
        return devices

    def _some(self, obj: Json, *names: str) -> Json:
        """Return an object with pseudonyms in some of its fields."""
        return {**obj, **self._mapping("", {name: obj[name] for name in names if name in obj}, "")}

    def _mapping(self, name: str, value: Json, kind: str) -> Json:
        is_selector = name == "selector" and kind in ("service", "replicationcontroller")
        # In devices and claims `nodeSelector` is a list of terms, in pods it is a mapping.
        if (name in _LABEL_MAPS or is_selector) and "nodeSelectorTerms" not in value:
            return {self.key(key): self._value(key, str(item)) for key, item in value.items()}
        if name in _RESOURCE_MAPS:
            return {self.resource(key): item for key, item in value.items()}
        left_out = _LEFT_OUT if kind == _CONFIG else ()
        return {
            inner: self._field(inner, item, kind)
            for inner, item in value.items()
            if inner not in left_out
        }

    def _item(self, name: str, item: object, kind: str) -> object:
        if isinstance(item, dict):
            if name in _REQUIREMENTS:
                return self._requirement(item)
            if name == "matchFields":
                return self._each(item, "values", self.name)
            if name == "images":
                return self._each(item, "names", self._image)
            if name == "drivers":
                return {**self._mapping("", item, kind), "name": item.get("name")}
            return self._mapping("", item, kind)
        if isinstance(item, str):
            if name in _KEY_LISTS:
                return self.key(item)
            if name in ("namespaces", "monitors"):
                return self.name(item)
        return item

    def _requirement(self, item: Json) -> Json:
        """Return a requirement on labels, a taint or a toleration with pseudonyms."""
        key = str(item.get("key", ""))
        requirement = {**item}
        if key:
            requirement["key"] = self.key(key)
        if isinstance(item.get("value"), str):
            requirement["value"] = self._value(key, str(item["value"]))
        return self._each(requirement, "values", lambda value: self._value(key, value))

    def _each(self, item: Json, name: str, convert: Callable[[str], str]) -> Json:
        values = item.get(name)
        if not isinstance(values, list):
            return item
        return {**item, name: [convert(str(value)) for value in values]}
