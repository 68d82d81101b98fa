"""Extended resources that are backed by device classes: devices may provide them.

Source: `shouldDelegateResourceToDRA` in `noderesources/fit.go` and
`hasDeviceClassMappedExtendedResource` in `dynamicresources/extendeddynamicresources.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.api import resources
from scheduler.api.dynamic_resources import DeviceClass, is_backed_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.handle import Handle

#: The feature gate of extended resources backed by device classes.
DRA_EXTENDED_RESOURCE: Final = "DRAExtendedResource"

#: Resources that are never devices; most pods request nothing else.
_NATIVE: Final = frozenset({resources.CPU, resources.MEMORY, resources.EPHEMERAL_STORAGE})


def backed_by_devices(handle: Handle, names: Iterable[str]) -> frozenset[str]:
    """Return those of the resources that a device class of the cluster backs.

    The calling plugin must have `deviceclasses` in `reads`.
    """
    candidates = [name for name in names if name not in _NATIVE]
    if not candidates or DRA_EXTENDED_RESOURCE not in handle.feature_gates:
        return frozenset()
    classes = handle.lister(DeviceClass).list()
    return frozenset(name for name in candidates if is_backed_by(classes, name))
