"""Extended resources behind which device classes stand: devices provide them, if nodes do not.

Source: `shouldDelegateResourceToDRA` in `noderesources/fit.go` and
`hasDeviceClassMappedExtendedResource` in `dynamicresources/extendeddynamicresources.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from scheduler.api import resources
from scheduler.api.dynamic_resources import DeviceClass, is_backed_by
from scheduler.framework.signers import resources_fragment
from scheduler.framework.status import unschedulable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.handle import Handle
    from scheduler.framework.interface import SignFragment
    from scheduler.framework.status import Status
    from scheduler.snapshot.pod_info import PodInfo

#: The feature gate without which no device class stands behind anything.
DRA_EXTENDED_RESOURCE: Final = "DRAExtendedResource"

_NOT_SIGNABLE: Final = unschedulable(
    "signature disabled when dra extended resources are used in the cluster"
)

#: Resources that are no devices; nearly all pods ask for nothing else.
_NATIVE: Final = frozenset({resources.CPU, resources.MEMORY, resources.EPHEMERAL_STORAGE})


def backed_by_devices(handle: Handle, names: Iterable[str]) -> frozenset[str]:
    """Those of these resources that some device class of the cluster stands behind.

    The plugin that asks must read `deviceclasses`.
    """
    candidates = [name for name in names if name not in _NATIVE]
    if not candidates or DRA_EXTENDED_RESOURCE not in handle.feature_gates:
        return frozenset()
    classes = cast("list[DeviceClass]", list(handle.lister("deviceclasses").list()))
    return frozenset(name for name in candidates if is_backed_by(classes, name))


def sign_requests(handle: Handle, pod: PodInfo) -> list[SignFragment] | Status:
    """What a pod asks for, as a fragment. Pods that devices may provide for share no verdicts."""
    wanted = [name for name, count in pod.spec_requests.items() if count]
    return _NOT_SIGNABLE if backed_by_devices(handle, wanted) else [resources_fragment(pod)]
