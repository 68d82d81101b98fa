"""Admission: the plugins of kube-apiserver that matter to scheduling, in upstream's order.

A plugin is a named pair of functions. `mutate` sees an object before it has its final name and may
change it; `check` sees it after validation and may only refuse. Both raise ApiError. A chain runs
all mutations, later all checks; which plugins are in it is the server's configuration.

On by default: all but TaintNodesByCondition, which wants a node controller to take the taint off.
StorageObjectInUseProtection and ServiceAccount are not here for the same reason: nobody would
finish what they begin.

Source: plugin/pkg/admission and pkg/kubeapiserver/options/plugins.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Final

from . import limits
from .errors import Forbidden, NotFound
from .objects import (
    Json,
    child,
    labels_of,
    mapping,
    mappings,
    metadata_of,
    name_of,
    sequence,
    string_map,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .kinds import ResourceKey
    from .registry import Registry, Target

PODS: Final = ("", "pods")
_NAMESPACES: Final = ("", "namespaces")
_NODES: Final = ("", "nodes")
_PRIORITY_CLASSES: Final = ("scheduling.k8s.io", "priorityclasses")
_RUNTIME_CLASSES: Final = ("node.k8s.io", "runtimeclasses")
_STORAGE_CLASSES: Final = ("storage.k8s.io", "storageclasses")
_CLAIMS: Final = ("", "persistentvolumeclaims")

SYSTEM_PRIORITY_CLASSES: Final = ("system-node-critical", "system-cluster-critical")
_IMMORTAL_NAMESPACES: Final = ("default", "kube-system", "kube-public")
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_TOLERATED: Final = (_NOT_READY, "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS: Final = 300
_TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


class Operation(enum.Enum):
    """What the request is about to do."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclasses.dataclass(frozen=True, slots=True)
class Review:
    """One write under review. `object` is the new state, on a delete the present one."""

    registry: Registry
    target: Target
    operation: Operation
    object: Json
    old: Json | None = None

    @property
    def resource(self) -> ResourceKey:
        """The resource that is written."""
        return self.target.kind.resource_key

    def is_for(self, resource: ResourceKey, *operations: Operation) -> bool:
        """Whether the object itself, no subresource, of that kind is written that way."""
        target = self.target
        return (
            target.kind.resource_key == resource
            and not target.subresource
            and self.operation in operations
        )

    def forbid(self, why: str) -> Forbidden:
        """The refusal to raise."""
        kind = self.target.kind
        metadata = metadata_of(self.object)
        name = self.target.name or text(metadata.get("name")) or text(metadata.get("generateName"))
        return Forbidden(kind.plural, kind.group, name or "Unknown", why)


@dataclasses.dataclass(frozen=True, slots=True)
class Plugin:
    """A named rule; a function that is not given does nothing."""

    name: str
    mutate: Callable[[Review], None] | None = None
    check: Callable[[Review], None] | None = None


class AdmissionChain:
    """The plugins of a server, in order."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self.plugins = tuple(plugins)
        self._mutations = [plugin.mutate for plugin in self.plugins if plugin.mutate]
        self._checks = [plugin.check for plugin in self.plugins if plugin.check]

    def mutate(self, review: Review) -> None:
        """Let the plugins change the object. Raises ApiError if one refuses it."""
        for mutate in self._mutations:
            mutate(review)

    def validate(self, review: Review) -> None:
        """Let the plugins judge the finished object. Raises ApiError if one refuses it."""
        for check in self._checks:
            check(review)


def _namespace_lifecycle(review: Review) -> None:
    """Nothing is created where there is no namespace, or in one that is going."""
    namespace = review.target.namespace
    if review.operation is Operation.DELETE or not namespace:
        return
    found = review.registry.store.get(_NAMESPACES, "", namespace)
    if found is None:
        raise NotFound("namespaces", "", namespace)
    phase = mapping(found.object.get("status")).get("phase")
    if review.operation is Operation.CREATE and phase == "Terminating":
        error = review.forbid(
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        error.details = {**(error.details or {}), "causes": [cause]}
        raise error


def _immortal_namespaces(review: Review) -> None:
    immortal = review.target.name in _IMMORTAL_NAMESPACES
    if review.is_for(_NAMESPACES, Operation.DELETE) and immortal:
        raise review.forbid("this namespace may not be deleted")


def _limit_ranges(review: Review) -> list[Json]:
    return review.registry.store.in_namespace(("", "limitranges"), review.target.namespace)


def _limit_defaults(review: Review) -> None:
    if review.is_for(PODS, Operation.CREATE):
        for limit_range in _limit_ranges(review):
            limits.apply_container_defaults(review.object, limit_range)


def _limit_bounds(review: Review) -> None:
    is_pod = review.is_for(PODS, Operation.CREATE)
    if not is_pod and not review.is_for(_CLAIMS, Operation.CREATE, Operation.UPDATE):
        return
    for limit_range in _limit_ranges(review):
        found = (
            limits.pod_complaints(review.object, limit_range)
            if is_pod
            else limits.claim_complaints(review.object, limit_range)
        )
        complaints = list(dict.fromkeys(found))
        if complaints:
            one = len(complaints) == 1
            raise review.forbid(complaints[0] if one else f"[{', '.join(complaints)}]")


def _taint_node(review: Review) -> None:
    if not review.is_for(_NODES, Operation.CREATE):
        return
    spec = child(review.object, "spec")
    taints = mappings(spec.get("taints"))
    if not any(t.get("key") == _NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
        spec["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]


def _priority(review: Review) -> None:
    if review.is_for(PODS, Operation.UPDATE):
        spec, old_spec = child(review.object, "spec"), mapping((review.old or {}).get("spec"))
        for field in ("priority", "preemptionPolicy"):
            if field not in spec and field in old_spec:
                spec[field] = old_spec[field]
    elif review.is_for(PODS, Operation.CREATE):
        _resolve_priority(review)


def _resolve_priority(review: Review) -> None:
    """The class, or the default one, decides; a number that says otherwise is refused."""
    spec = child(review.object, "spec")
    name, value, policy = _priority_of(review, text(spec.get("priorityClassName")))
    if name:
        spec["priorityClassName"] = name
    given = spec.get("priority")
    if given is not None and given != value:
        raise review.forbid(
            f"the integer value of priority ({given}) must not be provided in pod spec; priority "
            f"admission controller computed {value} from the given PriorityClass name"
        )
    spec["priority"] = value
    given = spec.get("preemptionPolicy")
    if policy and given is not None and given != policy:
        raise review.forbid(
            f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
    if policy:
        spec["preemptionPolicy"] = policy


def _priority_of(review: Review, name: str) -> tuple[str, int, str]:
    if name:
        found = review.registry.store.get(_PRIORITY_CLASSES, "", name)
        if found is None:
            raise review.forbid(f"no PriorityClass with name {name} was found")
        chosen: Json | None = found.object
    else:
        chosen = _default_priority_class(review)
    if chosen is None:
        return "", 0, "PreemptLowerPriority"
    value = chosen.get("value")
    assert isinstance(value, int)
    return name_of(chosen), value, text(chosen.get("preemptionPolicy"))


def _default_priority_class(review: Review) -> Json | None:
    """The class marked as default; `_check_priority_class` lets there be only one."""
    classes = review.registry.store.collection(_PRIORITY_CLASSES).revisions.values()
    return next((found.object for found in classes if found.object.get("globalDefault")), None)


def _check_priority_class(review: Review) -> None:
    name = review.target.name or name_of(review.object)
    if review.is_for(_PRIORITY_CLASSES, Operation.DELETE) and name in SYSTEM_PRIORITY_CLASSES:
        raise review.forbid("this is a system priority class and cannot be deleted")
    if not review.is_for(_PRIORITY_CLASSES, Operation.CREATE, Operation.UPDATE):
        return
    if review.object.get("globalDefault"):
        present = _default_priority_class(review)
        if present is not None and name_of(present) != name:
            raise review.forbid(
                f"PriorityClass {name_of(present)} is already marked as default. "
                "Only one default can exist"
            )


def _default_tolerations(review: Review) -> None:
    """Every pod stays five minutes on a node that went away, unless it says otherwise."""
    if not review.is_for(PODS, Operation.CREATE, Operation.UPDATE):
        return
    spec = child(review.object, "spec")
    tolerations = sequence(spec.get("tolerations"))
    for key in _TOLERATED:
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations = [
                *tolerations,
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATION_SECONDS,
                },
            ]
    spec["tolerations"] = tolerations


def _tolerates(toleration: object, key: str) -> bool:
    if not isinstance(toleration, dict):
        return False
    return toleration.get("key", "") in (key, "") and toleration.get("effect", "") in (
        "NoExecute",
        "",
    )


def _default_storage_class(review: Review) -> None:
    if not review.is_for(_CLAIMS, Operation.CREATE):
        return
    spec = child(review.object, "spec")
    annotations = mapping(metadata_of(review.object).get("annotations"))
    if spec.get("storageClassName") is not None or _BETA_CLASS in annotations:
        return
    classes = [
        found.object
        for found in review.registry.store.collection(_STORAGE_CLASSES).revisions.values()
        if mapping(metadata_of(found.object).get("annotations")).get(_DEFAULT_CLASS) == "true"
    ]
    if classes:  # the newest; of equally new ones the first by name
        newest = max(text(metadata_of(found).get("creationTimestamp")) for found in classes)
        spec["storageClassName"] = min(
            name_of(found)
            for found in classes
            if metadata_of(found).get("creationTimestamp") == newest
        )


def _runtime_class(review: Review) -> None:
    """Overhead, node selector and tolerations come from the class."""
    if not review.is_for(PODS, Operation.CREATE):
        return
    spec = child(review.object, "spec")
    runtime_class = _runtime_class_of(review, spec)
    fixed = mapping(mapping(runtime_class.get("overhead")).get("podFixed"))
    if "overhead" in runtime_class:
        if spec.get("overhead") and not limits.same_amounts(spec["overhead"], fixed):
            raise review.forbid(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            )
        spec["overhead"] = dict(fixed)
    scheduling = runtime_class.get("scheduling")
    if isinstance(scheduling, dict):
        _schedule_with_class(review, spec, scheduling)


def _schedule_with_class(review: Review, spec: Json, scheduling: Json) -> None:
    selector = string_map(spec.get("nodeSelector"))
    for key, value in string_map(scheduling.get("nodeSelector")).items():
        if selector.get(key, value) != value:
            raise review.forbid(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    merged = _merged_tolerations(
        [*mappings(spec.get("tolerations")), *mappings(scheduling.get("tolerations"))]
    )
    if merged:
        spec["tolerations"] = merged


def _check_overhead(review: Review) -> None:
    if not review.is_for(PODS, Operation.CREATE):
        return
    spec = mapping(review.object.get("spec"))
    runtime_class = _runtime_class_of(review, spec)
    if "overhead" not in runtime_class and "overhead" in spec:
        raise review.forbid(
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )


def _runtime_class_of(review: Review, spec: Json) -> Json:
    name = spec.get("runtimeClassName")
    if name is None:
        return {}
    found = review.registry.store.get(_RUNTIME_CLASSES, "", text(name))
    if found is None:
        raise review.forbid(f'pod rejected: RuntimeClass "{text(name)}" not found')
    return found.object


def _merged_tolerations(tolerations: list[Json]) -> list[Json]:
    """The tolerations without those that another one includes; of equal ones the first stays."""
    merged: list[Json] = []
    for index, toleration in enumerate(tolerations):
        later = tolerations[index + 1 :]
        if not any(_includes(other, toleration) for other in merged) and not any(
            other != toleration and _includes(other, toleration) for other in later
        ):
            merged.append(toleration)
    return merged


def _includes(wide: Json, narrow: Json) -> bool:
    """Whether whatever the narrow toleration tolerates, the wide one does too."""
    if wide == narrow:
        return True
    key, operator = wide.get("key", ""), wide.get("operator", "")
    if narrow.get("key", "") != key and (key or operator != "Exists"):
        return False
    if narrow.get("effect", "") != wide.get("effect", "") and wide.get("effect"):
        return False
    if wide.get("effect") == "NoExecute" and "tolerationSeconds" in wide:
        seconds = narrow.get("tolerationSeconds")
        if not isinstance(seconds, int) or seconds > int(str(wide["tolerationSeconds"])):
            return False
    if operator == "Exists":
        return True
    return narrow.get("operator") == "Equal" and narrow.get("value", "") == wide.get("value", "")


def _pod_topology_labels(review: Review) -> None:
    """KEP-4742: a pod learns its node's zone and region when it is bound."""
    if review.resource != PODS or review.operation is not Operation.CREATE:
        return
    if review.target.subresource == "binding":
        target = mapping(review.object.get("target"))
        if target.get("kind") != "Node":
            return
        node_name = text(target.get("name"))
    elif not review.target.subresource:
        node_name = text(mapping(review.object.get("spec")).get("nodeName"))
    else:
        return
    node = review.registry.store.get(_NODES, "", node_name) if node_name else None
    if node is None:
        return
    node_labels = labels_of(node.object)
    copied: Json = {key: node_labels[key] for key in _TOPOLOGY_LABELS if key in node_labels}
    if copied:
        child(child(review.object, "metadata"), "labels").update(copied)


_PLUGINS: Final = (
    Plugin("NamespaceLifecycle", mutate=_namespace_lifecycle, check=_immortal_namespaces),
    Plugin("LimitRanger", mutate=_limit_defaults, check=_limit_bounds),
    Plugin("TaintNodesByCondition", mutate=_taint_node),
    Plugin("Priority", mutate=_priority, check=_check_priority_class),
    Plugin("DefaultTolerationSeconds", mutate=_default_tolerations),
    Plugin("DefaultStorageClass", mutate=_default_storage_class),
    Plugin("RuntimeClass", mutate=_runtime_class, check=_check_overhead),
    Plugin("PodTopologyLabels", mutate=_pod_topology_labels),
)


def default_chain(*, taint_nodes_by_condition: bool) -> AdmissionChain:
    """The plugins a server runs unless told otherwise."""
    left_out = () if taint_nodes_by_condition else ("TaintNodesByCondition",)
    return AdmissionChain(plugin for plugin in _PLUGINS if plugin.name not in left_out)
