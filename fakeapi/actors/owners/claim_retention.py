"""Who owns the claims of a StatefulSet's pods, so that they go when its policy says so.

Source: updateClaimOwnerRefForSetAndPod in pkg/controller/statefulset/stateful_set_utils.go.
"""

from __future__ import annotations

from fakeapi.actors.objects import owner_reference, owners_of, spec_of, uid_of
from fakeapi.actors.resources import PODS, STATEFUL_SETS
from fakeapi.types.objects import Json, mapping, name_of


def claim_name(owner: Json, template: Json, ordinal: int) -> str:
    """The name of the claim that a pod of the set has for one of its templates."""
    return f"{name_of(template)}-{name_of(owner)}-{ordinal}"


def is_stale(claim: Json, pod_name: str, pod_uid: object) -> bool:
    """Whether the claim goes with another pod of that name; a new pod has to wait for that."""
    references = owners_of(claim)
    return any(
        one.get("kind") == "Pod" and one.get("name") == pod_name and one.get("uid") != pod_uid
        for one in references
    )


def owners_of_claim(claim: Json, owner: Json, pod: Json, *, scaled_down: bool) -> list[Json] | None:
    """The owners that the claim is to have, None if they are to be left as they are."""
    present = owners_of(claim)
    ours = {uid_of(one) for one in (owner, pod)}
    names = {("StatefulSet", name_of(owner)), ("Pod", name_of(pod))}
    for one in present:
        if (one.get("kind"), one.get("name")) in names and one.get("uid") not in ours:
            return None  # of another set or pod of that name, which is on its way out
    others = [one for one in present if one.get("uid") not in ours]
    wanted = list(others)
    if not any(one.get("controller") for one in others):
        policy = mapping(spec_of(owner).get("persistentVolumeClaimRetentionPolicy"))
        if policy.get("whenScaled") == "Delete" and scaled_down:
            wanted.append(owner_reference(PODS, pod))
        elif policy.get("whenDeleted") == "Delete":
            wanted.append(owner_reference(STATEFUL_SETS, owner))
    return None if wanted == present else wanted
