"""Resources of the API: their paths, the built-in resources, and the resources of discovery."""

from __future__ import annotations

import dataclasses
from typing import Final

from fakeapi.types.objects import Json, mapping, mappings, text, texts


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """A resource in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return the apiVersion of the resource's objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of the collection, of an object in it, or of a subresource."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)


PODS: Final = Resource("", "v1", "pods", "Pod")
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
SERVICES: Final = Resource("", "v1", "services", "Service")
ENDPOINTS: Final = Resource("", "v1", "endpoints", "Endpoints")
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
EVENTS: Final = Resource("", "v1", "events", "Event")
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
LEASE_CANDIDATES: Final = Resource(
    "coordination.k8s.io", "v1beta1", "leasecandidates", "LeaseCandidate"
)
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
REPLICATION_CONTROLLERS: Final = Resource(
    "", "v1", "replicationcontrollers", "ReplicationController"
)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
CONTROLLER_REVISIONS: Final = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
WORKLOADS: Final = Resource("scheduling.k8s.io", "v1alpha2", "workloads", "Workload")
POD_GROUPS: Final = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup")
BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
RESOURCE_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATES: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"
)
STORAGE_CLASSES: Final = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False
)
VOLUME_ATTRIBUTES_CLASSES: Final = Resource(
    "storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", namespaced=False
)
DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)


def discovered(document: Json, *verbs: str) -> list[Resource]:
    """Return the resources of a discovery document that have all these verbs.

    Each resource is listed once, in the preferred version of its group.
    """
    resources = []
    for group in mappings(document.get("items")):
        name = text(mapping(group.get("metadata")).get("name"))
        seen: set[str] = set()
        for version in mappings(group.get("versions")):
            for resource in mappings(version.get("resources")):
                plural = text(resource.get("resource"))
                if plural in seen or not set(verbs) <= set(texts(resource.get("verbs"))):
                    continue
                seen.add(plural)
                resources.append(
                    Resource(
                        name,
                        text(version.get("version")),
                        plural,
                        text(mapping(resource.get("responseKind")).get("kind")),
                        namespaced=resource.get("scope") == "Namespaced",
                    )
                )
    return resources
