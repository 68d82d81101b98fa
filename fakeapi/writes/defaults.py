"""Defaults: what the server fills into an object that its author left open.

Runs on decoded objects (see schema.py, which fills the defaults that types declare), on every
write, and changes them in place. Applying it twice changes nothing more.

Source: pkg/apis/*/v1/defaults.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types import pod_resources
from fakeapi.types.objects import Json, child, labels_of, mapping, mappings, name_of, text
from fakeapi.types.quantity import render
from fakeapi.validation.services import is_external
from fakeapi.writes import extension_defaults

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.types.kind import ResourceKey

_PERMISSIONS: Final = 0o644
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS: Final = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_SERVING_TYPES: Final = ("ClusterIP", "NodePort", "LoadBalancer")


def apply_defaults(resource: ResourceKey, obj: Json) -> None:
    """Fill in the defaults of the object's kind."""
    fill = _BY_RESOURCE.get(resource)
    if fill is not None:
        fill(obj)


def _default(obj: Json, name: str, value: object) -> None:
    """Set a field that is missing, or empty where empty means missing."""
    if obj.get(name) in (None, ""):
        obj[name] = value


def _pod(pod: Json) -> None:
    spec = child(pod, "spec")
    _pod_spec(spec)
    containers = mappings(spec.get("containers")) + mappings(spec.get("initContainers"))
    for container in containers:
        _requests_from_limits(container)
    _pod_level_resources(spec)
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        for container in containers:
            for port in mappings(container.get("ports")):
                if not port.get("hostPort"):
                    port["hostPort"] = port["containerPort"]


def _requests_from_limits(container: Json) -> None:
    resources = mapping(container.get("resources"))
    limits = mapping(resources.get("limits"))
    if limits:
        resources["requests"] = {**limits, **mapping(resources.get("requests"))}


def _pod_level_resources(spec: Json) -> None:
    """KEP-2837: limits of huge pages from the containers, requests from containers or limits."""
    resources = spec.get("resources")
    if not isinstance(resources, dict):
        return
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    if limits or requests:
        pages = {
            name: render(amount)
            for name, amount in pod_resources.container_sums(spec, "limits").items()
            if name.startswith(pod_resources.HUGE_PAGES_PREFIX) and name not in requests
        }
        limits = {**pages, **limits}
        if limits:
            resources["limits"] = limits
    if not limits:
        return
    wanted = {
        name: render(amount, "binary" if name == "memory" else "decimal")
        for name, amount in pod_resources.container_sums(spec, "requests").items()
        if pod_resources.is_pod_level_resource(name)
        and not name.startswith(pod_resources.HUGE_PAGES_PREFIX)
    }
    own = {
        name: value for name, value in limits.items() if pod_resources.is_pod_level_resource(name)
    }
    filled = {**own, **wanted, **requests}
    if filled:
        resources["requests"] = filled


def _pod_spec(spec: Json) -> None:
    _default(spec, "dnsPolicy", "ClusterFirst")
    _default(spec, "restartPolicy", "Always")
    _default(spec, "terminationGracePeriodSeconds", 30)
    _default(spec, "schedulerName", "default-scheduler")
    if "securityContext" not in spec:
        spec["securityContext"] = {}
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for list_name in ("containers", "initContainers", "ephemeralContainers"):
        for container in mappings(spec.get(list_name)):
            _container(container)
    for volume in mappings(spec.get("volumes")):
        _volume(volume)


def _container(container: Json) -> None:
    if not container.get("imagePullPolicy"):
        latest = _image_tag(text(container.get("image"))) == "latest"
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    _default(container, "terminationMessagePath", "/dev/termination-log")
    _default(container, "terminationMessagePolicy", "File")
    for probe_name in _PROBES:
        probe = container.get(probe_name)
        if isinstance(probe, dict):
            _handler(probe)
            for name, value in _PROBE_DEFAULTS.items():
                if not probe.get(name):
                    probe[name] = value
    for hook in mapping(container.get("lifecycle")).values():
        _handler(mapping(hook))
    for variable in mappings(container.get("env")):
        _field_reference(mapping(variable.get("valueFrom")).get("fieldRef"))


def _handler(handler: Json) -> None:
    request = handler.get("httpGet")
    if isinstance(request, dict):
        _default(request, "path", "/")
        _default(request, "scheme", "HTTP")


def _field_reference(reference: object) -> None:
    if isinstance(reference, dict):
        _default(reference, "apiVersion", "v1")


def _image_tag(image: str) -> str:
    """The tag of an image reference, `latest` if it has neither tag nor digest."""
    reference, at, _ = image.partition("@")
    tag = reference.rpartition("/")[2].partition(":")[2]
    return tag or ("" if at else "latest")


def _volume(volume: Json) -> None:
    sources = [value for name, value in volume.items() if name != "name" and value is not None]
    if not sources:
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        source = volume.get(name)
        if isinstance(source, dict) and "defaultMode" not in source:
            source["defaultMode"] = _PERMISSIONS
    for name in ("hostPath",):
        source = volume.get(name)
        if isinstance(source, dict) and "type" not in source:
            source["type"] = ""
    for item in mappings(mapping(volume.get("downwardAPI")).get("items")):
        _field_reference(item.get("fieldRef"))
    for projection in mappings(mapping(volume.get("projected")).get("sources")):
        token = projection.get("serviceAccountToken")
        if isinstance(token, dict) and "expirationSeconds" not in token:
            token["expirationSeconds"] = 3600
        for item in mappings(mapping(projection.get("downwardAPI")).get("items")):
            _field_reference(item.get("fieldRef"))
    claim = mapping(mapping(volume.get("ephemeral")).get("volumeClaimTemplate")).get("spec")
    if isinstance(claim, dict):
        _claim_spec(claim)
    image = volume.get("image")
    if isinstance(image, dict) and not image.get("pullPolicy"):
        latest = _image_tag(text(image.get("reference"))) == "latest"
        image["pullPolicy"] = "Always" if latest else "IfNotPresent"


def _template(spec: Json) -> None:
    """A pod template in the spec of a workload: the defaults of the spec, not those of a pod."""
    template = spec.get("template")
    if isinstance(template, dict):
        _pod_spec(child(template, "spec"))


def _replication_controller(controller: Json) -> None:
    spec = child(controller, "spec")
    template_labels = labels_of(mapping(spec.get("template")))
    if template_labels:
        if not spec.get("selector"):
            spec["selector"] = dict(template_labels)
        if not labels_of(controller):
            child(controller, "metadata")["labels"] = dict(template_labels)
    _template(spec)


def _replica_set(replica_set: Json) -> None:
    spec = child(replica_set, "spec")
    _default(spec, "replicas", 1)
    _template(spec)


def _stateful_set(stateful_set: Json) -> None:
    spec = child(stateful_set, "spec")
    _default(spec, "podManagementPolicy", "OrderedReady")
    strategy = child(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        child(strategy, "rollingUpdate")
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate" and isinstance(rolling, dict):
        _default(rolling, "partition", 0)
    retention = child(spec, "persistentVolumeClaimRetentionPolicy")
    _default(retention, "whenDeleted", "Retain")
    _default(retention, "whenScaled", "Retain")
    _default(spec, "replicas", 1)
    _default(spec, "revisionHistoryLimit", 10)
    _template(spec)
    for claim in mappings(spec.get("volumeClaimTemplates")):
        _claim(claim)


def _deployment(deployment: Json) -> None:
    spec = child(deployment, "spec")
    _default(spec, "replicas", 1)
    strategy = child(spec, "strategy")
    _default(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = child(strategy, "rollingUpdate")
        _default(rolling, "maxUnavailable", "25%")
        _default(rolling, "maxSurge", "25%")
    _default(spec, "revisionHistoryLimit", 10)
    _default(spec, "progressDeadlineSeconds", 600)
    _template(spec)


def _daemon_set(daemon_set: Json) -> None:
    spec = child(daemon_set, "spec")
    strategy = child(spec, "updateStrategy")
    _default(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = child(strategy, "rollingUpdate")
        _default(rolling, "maxUnavailable", 1)
        _default(rolling, "maxSurge", 0)
    _default(spec, "revisionHistoryLimit", 10)
    _template(spec)


def _job(job: Json) -> None:
    spec = child(job, "spec")
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    _default(spec, "parallelism", 1)
    _default(spec, "backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    template_labels = labels_of(mapping(spec.get("template")))
    if template_labels and not labels_of(job):
        # The very labels of the template: what generate_selector adds to one, both have.
        child(job, "metadata")["labels"] = template_labels
    _default(spec, "completionMode", "NonIndexed")
    _default(spec, "suspend", False)
    failed_only = "podFailurePolicy" in spec
    _default(spec, "podReplacementPolicy", "Failed" if failed_only else "TerminatingOrFailed")
    _default(spec, "manualSelector", False)
    _template(spec)


def _cron_job(cron_job: Json) -> None:
    spec = child(cron_job, "spec")
    _default(spec, "concurrencyPolicy", "Allow")
    _default(spec, "suspend", value=False)
    _default(spec, "successfulJobsHistoryLimit", 3)
    _default(spec, "failedJobsHistoryLimit", 1)
    _template(child(child(spec, "jobTemplate"), "spec"))


def _service(service: Json) -> None:
    spec = child(service, "spec")
    _default(spec, "sessionAffinity", "None")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = child(child(spec, "sessionAffinityConfig"), "clientIP")
        _default(client, "timeoutSeconds", 10800)
    _default(spec, "type", "ClusterIP")
    service_type = spec["type"]
    for port in mappings(spec.get("ports")):
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port")
    if is_external(spec):
        _default(spec, "externalTrafficPolicy", "Cluster")
    if service_type in _SERVING_TYPES and spec.get("internalTrafficPolicy") is None:
        spec["internalTrafficPolicy"] = "Cluster"
    if service_type == "LoadBalancer":
        _default(spec, "allocateLoadBalancerNodePorts", True)
        balancer = mapping(mapping(service.get("status")).get("loadBalancer"))
        for entry in mappings(balancer.get("ingress")):
            if entry.get("ip") and entry.get("ipMode") is None:
                entry["ipMode"] = "VIP"


def _endpoints(endpoints: Json) -> None:
    for subset in mappings(endpoints.get("subsets")):
        for port in mappings(subset.get("ports")):
            _default(port, "protocol", "TCP")


def _namespace(namespace: Json) -> None:
    name = name_of(namespace)
    if name:
        labels = child(child(namespace, "metadata"), "labels")
        labels["kubernetes.io/metadata.name"] = name
    _default(child(namespace, "status"), "phase", "Active")


def _node(node: Json) -> None:
    status = child(node, "status")
    if "allocatable" not in status and status.get("capacity"):
        status["allocatable"] = dict(mapping(status["capacity"]))


def _volume_object(volume: Json) -> None:
    _default(child(volume, "status"), "phase", "Pending")
    spec = child(volume, "spec")
    _default(spec, "persistentVolumeReclaimPolicy", "Retain")
    _default(spec, "volumeMode", "Filesystem")
    host_path = spec.get("hostPath")
    if isinstance(host_path, dict) and "type" not in host_path:
        host_path["type"] = ""


def _claim(claim: Json) -> None:
    _default(child(claim, "status"), "phase", "Pending")
    _claim_spec(child(claim, "spec"))


def _claim_spec(spec: Json) -> None:
    _default(spec, "volumeMode", "Filesystem")


def _limit_range(limit_range: Json) -> None:
    for item in mappings(mapping(limit_range.get("spec")).get("limits")):
        if item.get("type") != "Container":
            continue
        limits = {**mapping(item.get("max")), **mapping(item.get("default"))}
        requests = {**mapping(item.get("min")), **limits, **mapping(item.get("defaultRequest"))}
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests


def _secret(secret: Json) -> None:
    _default(secret, "type", "Opaque")


def _storage_class(storage_class: Json) -> None:
    _default(storage_class, "reclaimPolicy", "Delete")
    _default(storage_class, "volumeBindingMode", "Immediate")


def _csi_driver(driver: Json) -> None:
    spec = child(driver, "spec")
    _default(spec, "attachRequired", True)
    _default(spec, "podInfoOnMount", False)
    _default(spec, "storageCapacity", False)
    _default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType")
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]
    _default(spec, "requiresRepublish", False)
    _default(spec, "seLinuxMount", False)


def _priority_class(priority_class: Json) -> None:
    _default(priority_class, "preemptionPolicy", "PreemptLowerPriority")


def _resource_claim(claim: Json) -> None:
    for request in mappings(mapping(mapping(claim.get("spec")).get("devices")).get("requests")):
        exactly = request.get("exactly")
        choices = mappings(request.get("firstAvailable"))
        for wish in [*choices, *([exactly] if isinstance(exactly, dict) else [])]:
            _default(wish, "allocationMode", "ExactCount")
            if wish["allocationMode"] == "ExactCount" and not wish.get("count"):
                wish["count"] = 1


def _resource_claim_template(template: Json) -> None:
    _resource_claim(child(template, "spec"))


def with_taint_times(slice_object: Json, now: str) -> None:
    """Note when device taints were added, in a ResourceSlice that is being written."""
    for device in mappings(mapping(slice_object.get("spec")).get("devices")):
        for taint in mappings(device.get("taints")):
            _default(taint, "timeAdded", now)


def _role(role: Json) -> None:
    if role.get("rules") == []:  # which upstream's way to store it cannot tell from none
        role["rules"] = None


def _role_binding(binding: Json) -> None:
    _default(child(binding, "roleRef"), "apiGroup", _RBAC)
    for subject in mappings(binding.get("subjects")):
        if subject.get("kind") in ("User", "Group"):
            _default(subject, "apiGroup", _RBAC)


_RBAC: Final = "rbac.authorization.k8s.io"
_BY_RESOURCE: Final[dict[ResourceKey, Callable[[Json], None]]] = {
    ("", "pods"): _pod,
    ("", "nodes"): _node,
    ("", "namespaces"): _namespace,
    ("", "services"): _service,
    ("", "endpoints"): _endpoints,
    ("", "replicationcontrollers"): _replication_controller,
    ("", "persistentvolumes"): _volume_object,
    ("", "persistentvolumeclaims"): _claim,
    ("", "limitranges"): _limit_range,
    ("", "secrets"): _secret,
    ("apps", "replicasets"): _replica_set,
    ("apps", "statefulsets"): _stateful_set,
    ("apps", "deployments"): _deployment,
    ("apps", "daemonsets"): _daemon_set,
    ("batch", "jobs"): _job,
    (_RBAC, "roles"): _role,
    (_RBAC, "clusterroles"): _role,
    (_RBAC, "rolebindings"): _role_binding,
    (_RBAC, "clusterrolebindings"): _role_binding,
    ("batch", "cronjobs"): _cron_job,
    ("", "podtemplates"): _template,
    ("storage.k8s.io", "storageclasses"): _storage_class,
    ("storage.k8s.io", "csidrivers"): _csi_driver,
    ("scheduling.k8s.io", "priorityclasses"): _priority_class,
    ("resource.k8s.io", "resourceclaims"): _resource_claim,
    ("resource.k8s.io", "resourceclaimtemplates"): _resource_claim_template,
    **extension_defaults.BY_RESOURCE,
}
