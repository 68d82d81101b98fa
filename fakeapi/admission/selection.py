"""Which plugins a server runs: what is known, what is on by default, and what the flags change.

Source: pkg/kubeapiserver/options/plugins.go of Kubernetes v1.36.3 (names, order, defaults) and
apiserver pkg/server/options/admission.go of v0.36.3 (what the flags mean).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import AdmissionChain, Plugin
from fakeapi.admission.default_ingress_class import DefaultIngressClass
from fakeapi.admission.default_storage_class import DefaultStorageClass
from fakeapi.admission.default_toleration_seconds import DefaultTolerationSeconds
from fakeapi.admission.extended_resource_toleration import ExtendedResourceToleration
from fakeapi.admission.limit_pod_hard_anti_affinity_topology import (
    LimitPodHardAntiAffinityTopology,
)
from fakeapi.admission.limit_ranger import LimitRanger
from fakeapi.admission.namespace_exists import NamespaceExists
from fakeapi.admission.namespace_lifecycle import NamespaceLifecycle
from fakeapi.admission.persistent_volume_claim_resize import PersistentVolumeClaimResize
from fakeapi.admission.pod_topology_labels import PodTopologyLabels
from fakeapi.admission.priority import Priority
from fakeapi.admission.resource_quota import ResourceQuota
from fakeapi.admission.runtime_class import RuntimeClass
from fakeapi.admission.storage_object_in_use_protection import StorageObjectInUseProtection
from fakeapi.admission.taint_nodes_by_condition import TaintNodesByCondition

if TYPE_CHECKING:
    from collections.abc import Iterable

#: All that is here, in upstream's order.
KNOWN: Final[tuple[type[Plugin], ...]] = (
    NamespaceLifecycle,
    NamespaceExists,
    LimitPodHardAntiAffinityTopology,
    LimitRanger,
    TaintNodesByCondition,
    Priority,
    DefaultTolerationSeconds,
    ExtendedResourceToleration,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    PersistentVolumeClaimResize,
    RuntimeClass,
    DefaultIngressClass,
    PodTopologyLabels,
    ResourceQuota,
)
#: Off unless asked for, here as upstream but for two: nobody would finish what those begin.
OFF: Final = frozenset(
    {
        "NamespaceExists",
        "LimitPodHardAntiAffinityTopology",
        "ExtendedResourceToleration",
        "TaintNodesByCondition",
        "StorageObjectInUseProtection",
    }
)
#: What upstream has and this server has not; switching it off is what happens anyway.
ABSENT: Final = frozenset(
    {
        "AlwaysAdmit", "AlwaysDeny", "NamespaceAutoProvision", "ServiceAccount",
        "NodeRestriction", "AlwaysPullImages",
        "ImagePolicyWebhook", "PodSecurity", "PodNodeSelector", "PodTolerationRestriction",
        "EventRateLimit", "PodGroupProtection", "OwnerReferencesPermissionEnforcement",
        "CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest",
        "CertificateSubjectRestriction", "DenyServiceExternalIPs", "PodGroupWorkloadExists",
        "NodeDeclaredFeatureValidator", "JobValidation", "PodResizeValidator",
        "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
    }
)  # fmt: skip
_NAMES: Final = tuple(plugin.name for plugin in KNOWN)


class AdmissionError(ValueError):
    """A list of plugins makes no sense; the message begins with the flag it came from."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What was asked for. `plugins` is the whole list, if it is given; `enable` wins over off."""

    plugins: tuple[str, ...] | None = None
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        plugins: Iterable[str] | None = None,
        enable: Iterable[str] = (),
        disable: Iterable[str] = (),
    ) -> Selection:
        """Check the names. Raises AdmissionError, which names the flag and what is known."""
        made = cls(
            plugins=None if plugins is None else _listed(plugins),
            enable=_listed(enable),
            disable=_listed(disable),
        )
        _check_known("admission-plugins", made.plugins or ())
        _check_known("enable-admission-plugins", made.enable)
        for name in made.disable:
            if name not in _NAMES and name not in ABSENT:
                raise _unknown("disable-admission-plugins", name, "unknown")
        both = sorted(set(made.enable) & set(made.disable))
        if both:
            raise AdmissionError(
                f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins "
                "overlapped"
            )
        if made.plugins is not None and (made.enable or made.disable):
            raise AdmissionError(
                "admission-plugins is the whole list: nothing can be added to it by "
                "enable-admission-plugins or taken from it by disable-admission-plugins"
            )
        return made

    def chain(self, *, taints_nodes: bool = False) -> AdmissionChain:
        """The plugins, made anew, in upstream's order whatever the order of the names."""
        also = {"TaintNodesByCondition"} if taints_nodes else set()
        if self.plugins is not None:
            on = also.union(self.plugins)
        else:
            on = also.union(set(_NAMES) - OFF - set(self.disable), self.enable)
        return AdmissionChain(plugin() for plugin in KNOWN if plugin.name in on)


def _listed(names: Iterable[str]) -> tuple[str, ...]:
    """A single text is taken for what a flag says: names with commas between them."""
    given = names.split(",") if isinstance(names, str) else names
    return tuple(name for name in dict.fromkeys(item.strip() for item in given) if name)


def _check_known(flag: str, names: tuple[str, ...]) -> None:
    for name in names:
        if name in ABSENT:
            raise _unknown(flag, name, "not part of this server")
        if name not in _NAMES:
            raise _unknown(flag, name, "unknown")


def _unknown(flag: str, name: str, why: str) -> AdmissionError:
    return AdmissionError(f'{flag} plugin "{name}" is {why}; known are {", ".join(_NAMES)}')
