"""Leases, and candidates for them.

Source: pkg/apis/coordination/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

import re
from typing import Final

from fakeapi.types.columns import AGE, NAME, Column
from fakeapi.types.errors import FieldError, forbidden, invalid, required
from fakeapi.types.kind import NAMESPACED_FIELDS, Kind, KindRules, value_at
from fakeapi.types.names import config_map_key, qualified_name
from fakeapi.types.objects import Json, mapping, text
from fakeapi.validation.checks import NOT_NEGATIVE, choice_errors, fixed, name_errors

_STRATEGY: Final = "spec.strategy"
_OLDEST: Final = "OldestEmulationVersion"
_NUMBER: Final = "(0|[1-9][0-9]*)"
_match_version = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(-(?P<pre>({_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
    rf"(\.({_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*))?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
).fullmatch
_NO_VERSION: Final = (0, 0, 0, True, ())


def _validate(lease: Json) -> list[FieldError]:
    spec = mapping(lease.get("spec"))
    errors = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if isinstance(duration, int) and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if isinstance(transitions, int) and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, NOT_NEGATIVE))
    strategy = spec.get("strategy")
    if strategy is not None:
        errors += _strategy_errors(text(strategy))
    if spec.get("preferredHolder") and not strategy:
        why = "may only be specified if `strategy` is defined"
        errors.append(forbidden("spec.preferredHolder", why))
    return errors


def _strategy_errors(strategy: str) -> list[FieldError]:
    # Upstream names the field twice.
    path = f"{_STRATEGY}.strategy"
    if "/" in strategy:
        return name_errors(strategy, path, qualified_name)
    return choice_errors(strategy, path, (_OLDEST,))


def _validate_candidate(candidate: Json) -> list[FieldError]:
    spec = mapping(candidate.get("spec"))
    errors = [] if spec.get("leaseName") else [required("spec.leaseName")]
    emulated, binary = text(spec.get("emulationVersion")), text(spec.get("binaryVersion"))
    if emulated and _match_version(emulated) is None:
        errors.append(_not_semantic("spec.emulationVersion", emulated))
    if not binary:
        errors.append(required("spec.binaryVersion"))
    elif _match_version(binary) is None:
        errors.append(_not_semantic("spec.binaryVersion", binary))
    if binary and emulated and version_key(binary) < version_key(emulated):
        why = "must be greater than or equal to `emulationVersion`"
        errors.append(invalid("spec.binaryVersion", binary, why))
    strategy = text(spec.get("strategy"))
    if not strategy:
        return [*errors, required(_STRATEGY)]
    if strategy == _OLDEST and version_key(emulated) == _NO_VERSION:
        why = "must be specified when `strategy` is 'OldestEmulationVersion'"
        errors.append(required("spec.emulationVersion", why))
    return errors + _strategy_errors(strategy)


def _not_semantic(path: str, version: str) -> FieldError:
    return invalid(path, version, "must be a valid semantic version")


def version_key(version: str) -> tuple[object, ...]:
    """Return the sort key of a semantic version; any other text counts as 0.0.0."""
    match = _match_version(version)
    if match is None:
        return _NO_VERSION
    parts = (match["pre"] or "").split(".") if match["pre"] else []
    pre = tuple((not part.isdigit(), int(part) if part.isdigit() else part) for part in parts)
    return (*(int(number) for number in match.groups()[:3]), not pre, pre)


KINDS: Final = (
    Kind(
        "coordination.k8s.io", "v1", "leases", "Lease", schema="coordination/v1.Lease",
        create_on_update=True, unconditional_update=False,
        columns=(NAME, Column("Holder", ".spec.holderIdentity"), AGE),
        rules=KindRules(validate=_validate),
    ),
    Kind(
        "coordination.k8s.io", "v1beta1", "leasecandidates", "LeaseCandidate",
        schema="coordination/v1beta1.LeaseCandidate",
        create_on_update=True, unconditional_update=False,
        fields={**NAMESPACED_FIELDS, "spec.leaseName": value_at("spec", "leaseName")},
        columns=(
            NAME, Column("LeaseName", ".spec.leaseName"),
            Column("BinaryVersion", ".spec.binaryVersion"),
            Column("EmulationVersion", ".spec.emulationVersion"), AGE,
        ),
        rules=KindRules(
            check_name=config_map_key, validate=_validate_candidate,
            validate_update=fixed("spec.leaseName"),
        ),
    ),
)  # fmt: skip
