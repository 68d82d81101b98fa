"""Validation of the addresses of Services, and of what may become of them.

Source: ValidateServiceClusterIPsRelatedFields and validateUpgradeDowngrade{ClusterIPs,IPFamilies}
in pkg/apis/core/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.errors import FieldError, duplicate, invalid, not_supported, required
from fakeapi.types.objects import Json, text, texts
from fakeapi.types.service_fields import NONE, cluster_ips, is_headless, needs_cluster_ip
from fakeapi.validation.addresses import address_errors, parsed_sloppily

_IPS, _FAMILIES, _POLICY = "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"
_KNOWN_FAMILIES: Final = ("IPv4", "IPv6")
_KNOWN_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_FIXED: Final = "may not change once set"


def cluster_ip_errors(spec: Json, old: Json | None) -> list[FieldError]:
    """What is wrong with its addresses and families, each for itself and with each other."""
    if not needs_cluster_ip(spec):
        return []
    errors = _singular_errors(spec) + _family_errors(spec)
    given = cluster_ips(spec)
    found = _format_errors(given, cluster_ips(old) if old else [])
    errors += found
    if len(given) > 2:
        errors.append(invalid(_IPS, given, "may only hold up to 2 values"))
    if found:
        return errors
    if len(given) > 1 and len({_family(address) for address in given}) < len(given):
        why = "may specify no more than one IP for each IP family"
        errors.append(invalid(_IPS, given, why))
    if not is_headless(spec):
        for index, (address, family) in enumerate(
            zip(given, texts(spec.get("ipFamilies")), strict=False)
        ):
            if family in _KNOWN_FAMILIES and _family(address) != family:
                why = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
                errors.append(invalid(f"{_IPS}[{index}]", address, why))
    return errors


def _singular_errors(spec: Json) -> list[FieldError]:
    """The one address is the first of all."""
    single, given = text(spec.get("clusterIP")), cluster_ips(spec)
    if single and not given:
        return [required(_IPS)]
    if single and given[0] != single:
        return [invalid(_IPS, given, "first value must match `clusterIP`")]
    if given and not single:
        return [invalid(_IPS, given, "must be empty when `clusterIP` is not specified")]
    return []


def _family_errors(spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, family in enumerate(texts(spec.get("ipFamilies"))):
        field = f"{_FAMILIES}[{index}]"
        if family not in _KNOWN_FAMILIES:
            errors.append(not_supported(field, family, _KNOWN_FAMILIES))
        if family in seen:
            errors.append(duplicate(field, family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _KNOWN_POLICIES:
        errors.append(not_supported(_POLICY, policy, _KNOWN_POLICIES))
    return errors


def _format_errors(given: list[str], old_values: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, address in enumerate(given):
        if index == 0 and address == NONE:
            if len(given) > 1:
                errors.append(invalid(_IPS, given, "'None' must be the first and only value"))
        else:
            errors += address_errors(f"{_IPS}[{index}]", address, old_values)
    return errors


def _family(address: str) -> str:
    found = parsed_sloppily(address)
    return "IPv6" if found is not None and found.version == 6 else "IPv4"


def cluster_ip_changes(spec: Json, old: Json) -> list[FieldError]:
    """Addresses and families stay; but for a second one, and for mere names."""
    if not needs_cluster_ip(spec) or not needs_cluster_ip(old):
        return []
    was_headless, now_headless = is_headless(old), is_headless(spec)
    errors: list[FieldError] = []
    if not (was_headless and now_headless):
        errors += _address_changes(spec, old)
    if not (was_headless or now_headless):
        errors += _family_changes(spec, old)
    return errors


def _address_changes(spec: Json, old: Json) -> list[FieldError]:
    now, before = cluster_ips(spec), cluster_ips(old)
    if len(now) == len(before):
        return [
            invalid(f"{_IPS}[{index}]", now, _FIXED)
            for index, address in enumerate(before)
            if address != now[index]
        ]
    errors: list[FieldError] = []
    if not now:
        # Go shows a slice that is nil.
        errors.append(invalid(f"{_IPS}[0]", None, "primary clusterIP can not be unset"))
    if now and before and now[0] != before[0]:
        errors.append(invalid(f"{_IPS}[0]", now, _FIXED))
    if len(before) > len(now) == 1:
        errors += _release_errors(spec, "clusterIP")
    return errors


def _family_changes(spec: Json, old: Json) -> list[FieldError]:
    now, before = texts(spec.get("ipFamilies")), texts(old.get("ipFamilies"))
    field = f"{_FAMILIES}[0]"
    if len(now) == len(before):
        pairs = zip(before, now, strict=True)
        return [invalid(field, now, _FIXED) for was, family in pairs if was != family]
    errors: list[FieldError] = []
    if len(before) > len(now) and not cluster_ips(spec):
        errors.append(invalid(field, now or None, "primary ipFamily can not be unset"))
    if now and before and now[0] != before[0]:
        errors.append(invalid(field, cluster_ips(spec) or None, _FIXED))
    if len(before) > len(now) == 1:
        errors += _release_errors(spec, "ipFamily")
    return errors


def _release_errors(spec: Json, what: str) -> list[FieldError]:
    policy = spec.get("ipFamilyPolicy")
    if policy == "SingleStack":
        return []
    why = f"must be set to 'SingleStack' when releasing the secondary {what}"
    return [invalid(_POLICY, policy, why)]
