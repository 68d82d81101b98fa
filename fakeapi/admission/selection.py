"""Select the plugins of a server: all plugins, the plugins on by default, and the flags.

Source: pkg/kubeapiserver/options/plugins.go of Kubernetes v1.36.3 (names, order, defaults) and
apiserver pkg/server/options/admission.go of v0.36.3 (the meaning of the flags).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import AdmissionChain, Plugin
from fakeapi.admission.default_classes import DefaultIngressClass, DefaultStorageClass
from fakeapi.admission.limit_ranger import LimitRanger
from fakeapi.admission.namespaces import NamespaceExists, NamespaceLifecycle
from fakeapi.admission.nodes import PodTopologyLabels, TaintNodesByCondition
from fakeapi.admission.pod_groups import (
    JobValidation,
    PodGroupProtection,
    PodGroupWorkloadExists,
)
from fakeapi.admission.pods import (
    DefaultTolerationSeconds,
    ExtendedResourceToleration,
    LimitPodHardAntiAffinityTopology,
)
from fakeapi.admission.priority import Priority
from fakeapi.admission.resource_quota import ResourceQuota
from fakeapi.admission.runtime_class import RuntimeClass
from fakeapi.admission.volumes import PersistentVolumeClaimResize, StorageObjectInUseProtection

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
    PodGroupProtection,
    PersistentVolumeClaimResize,
    RuntimeClass,
    DefaultIngressClass,
    PodTopologyLabels,
    PodGroupWorkloadExists,
    JobValidation,
    ResourceQuota,
)
#: Off by default. Upstream has the last one on; here no controller would undo its work.
OFF: Final = frozenset(
    {
        "NamespaceExists",
        "LimitPodHardAntiAffinityTopology",
        "ExtendedResourceToleration",
        "TaintNodesByCondition",
    }
)
#: Plugins of upstream that this server does not have; disabling them is accepted.
ABSENT: Final = frozenset(
    {
        "AlwaysAdmit", "AlwaysDeny", "NamespaceAutoProvision", "ServiceAccount",
        "NodeRestriction", "AlwaysPullImages",
        "ImagePolicyWebhook", "PodSecurity", "PodNodeSelector", "PodTolerationRestriction",
        "EventRateLimit", "OwnerReferencesPermissionEnforcement",
        "CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest",
        "CertificateSubjectRestriction", "DenyServiceExternalIPs",
        "NodeDeclaredFeatureValidator", "PodResizeValidator",
        "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
    }
)  # fmt: skip
_NAMES: Final = tuple(plugin.name for plugin in KNOWN)


class AdmissionError(ValueError):
    """A list of plugins is invalid; the message begins with the flag of the list."""


def admission_chain(
    plugins: Iterable[str] | None = None, enable: Iterable[str] = (), disable: Iterable[str] = ()
) -> AdmissionChain:
    """Return new plugins in upstream's order: exactly `plugins`, or a change of the defaults.

    Each argument is names, or texts with commas between names. Raises AdmissionError.
    """
    enabled, disabled = _listed(enable), _listed(disable)
    _check_known("enable-admission-plugins", enabled)
    for name in disabled:
        if name not in _NAMES and name not in ABSENT:
            raise _unknown("disable-admission-plugins", name, "unknown")
    both = sorted(set(enabled) & set(disabled))
    if both:
        raise AdmissionError(
            f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins "
            "overlapped"
        )
    if plugins is None:
        on = (set(_NAMES) - OFF - set(disabled)).union(enabled)
    elif enabled or disabled:
        raise AdmissionError(
            "admission-plugins is the whole list: nothing can be added to it by "
            "enable-admission-plugins or taken from it by disable-admission-plugins"
        )
    else:
        on = set(_listed(plugins))
        _check_known("admission-plugins", on)
    return AdmissionChain(plugin() for plugin in KNOWN if plugin.name in on)


def _listed(names: Iterable[str]) -> tuple[str, ...]:
    texts = [names] if isinstance(names, str) else names
    listed = (name.strip() for text in texts for name in text.split(","))
    return tuple(name for name in dict.fromkeys(listed) if name)


def _check_known(flag: str, names: Iterable[str]) -> None:
    for name in names:
        if name in ABSENT:
            raise _unknown(flag, name, "not part of this server")
        if name not in _NAMES:
            raise _unknown(flag, name, "unknown")


def _unknown(flag: str, name: str, why: str) -> AdmissionError:
    return AdmissionError(f'{flag} plugin "{name}" is {why}; known are {", ".join(_NAMES)}')
