"""Extended resources behind which device classes stand: devices provide them, if nodes do not.

Source: `shouldDelegateResourceToDRA` in `noderesources/fit.go` and
`hasDeviceClassMappedExtendedResource` in `dynamicresources/extendeddynamicresources.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from scheduler.api import resources
from scheduler.api.dynamic_resources import DeviceClass, is_backed_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.handle import Handle

#: The feature gate without which no device class stands behind anything.
DRA_EXTENDED_RESOURCE: Final = "DRAExtendedResource"

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
