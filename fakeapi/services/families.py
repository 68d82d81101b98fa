"""The families of addresses a Service has: inferred from what is given, held against the cluster.

The cluster knows IPv4 alone. Only a Service without addresses and without a selector may name both
families: nobody knows what its endpoints will be.

Source: initIPFamilyFields in pkg/registry/core/service/storage/alloc.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.errors import FieldError, invalid
from fakeapi.types.objects import text, texts
from fakeapi.types.service_fields import NONE, cluster_ips, needs_cluster_ip
from fakeapi.validation.service_addresses import cluster_ip_errors

if TYPE_CHECKING:
    from fakeapi.types.objects import Json

_FAMILY: Final = "IPv4"
_FAMILIES: Final = ("IPv4", "IPv6")
_SINGLE, _REQUIRED = "SingleStack", "RequireDualStack"
_POLICY: Final = "spec.ipFamilyPolicy"
_HANGING_TOGETHER: Final = ("type", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def settle_families(spec: Json, old: Json | None) -> list[FieldError]:
    """Fill in ipFamilyPolicy and ipFamilies; answers why it cannot be, and is not done then."""
    if not needs_cluster_ip(spec) or _is_settled(spec, old):
        return []
    selects = bool(spec.get("selector"))
    is_free = spec.get("clusterIP") == NONE and not selects
    if spec.get("ipFamilyPolicy") is None:
        before = None if old is None else old.get("ipFamilyPolicy")
        spec["ipFamilyPolicy"] = before or (_REQUIRED if is_free else _SINGLE)
    errors = cluster_ip_errors(spec, old)
    if not errors:
        if old is not None:
            errors += _release_second(spec, old)
        errors += _single_stack_errors(spec)
        errors += _infer_families(spec)
    if errors:
        return errors
    if is_free:
        _settle_free(spec)
        return []
    return _unconfigured(spec) or _settle_default(spec)


def _is_settled(spec: Json, old: Json | None) -> bool:
    """Whether nothing changes: then what was allowed once, perhaps elsewhere, is so for good."""
    if old is None or not old.get("ipFamilies"):
        return False
    return all(spec.get(field) == old.get(field) for field in _HANGING_TOGETHER)


def _release_second(spec: Json, old: Json) -> list[FieldError]:
    """One family instead of two has to be said; the second one goes then."""
    policy, errors = spec.get("ipFamilyPolicy"), []
    for field, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        now, before = texts(spec.get(field)), texts(old.get(field))
        if policy == _SINGLE:
            if now == before and len(now) > 1:
                spec[field] = now[:1]
        elif now and len(now) < len(before):
            why = f"must be 'SingleStack' to release the secondary {what}"
            errors.append(invalid(_POLICY, policy, why))
    return errors


def _single_stack_errors(spec: Json) -> list[FieldError]:
    if spec.get("ipFamilyPolicy") != _SINGLE:
        return []
    why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
    return [
        invalid(_POLICY, _SINGLE, why.format(what))
        for field, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families"))
        if len(texts(spec.get(field))) == 2
    ]


def _infer_families(spec: Json) -> list[FieldError]:
    """The families of the addresses that were given."""
    families, errors = list(texts(spec.get("ipFamilies"))), []
    given = cluster_ips(spec)
    for index, address in enumerate(given):
        if address == NONE:
            break
        family = "IPv6" if ":" in address else _FAMILY
        if index < len(families):
            continue
        if family != _FAMILY:
            why = f"{family} is not configured on this cluster"
            errors.append(invalid(f"spec.clusterIPs[{index}]", given, why))
        else:
            families.append(family)
    if families:
        spec["ipFamilies"] = families
    return errors


def _settle_free(spec: Json) -> None:
    """Headless and without a selector: both families unless one is asked for."""
    families = texts(spec.get("ipFamilies")) or [_FAMILY]
    if len(families) < 2 and spec.get("ipFamilyPolicy") != _SINGLE:
        families = [families[0], *(family for family in _FAMILIES if family != families[0])]
    spec["ipFamilies"] = families


def _unconfigured(spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = text(spec.get("ipFamilyPolicy"))
    if policy == _REQUIRED:
        why = "this cluster is not configured for dual-stack services"
        errors.append(invalid(_POLICY, policy, why))
    for index, family in enumerate(texts(spec.get("ipFamilies"))):
        if family != _FAMILY:
            why = "not configured on this cluster"
            errors.append(invalid(f"spec.ipFamilies[{index}]", family, why))
    return errors


def _settle_default(spec: Json) -> list[FieldError]:
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = [_FAMILY]
    return []
