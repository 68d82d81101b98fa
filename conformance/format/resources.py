"""Quantities and requests of pods, in whole nano-units.

The suite judges placements by this arithmetic. It is independent of the API server's and of the
scheduler's arithmetic, so that their errors cannot hide an overcommitted node.
Source: PodRequests in component-helpers resource/helpers.go of v1.36.3.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..api import Json

NANO: Final = 10**9
_POWERS: Final = {
    **{suffix: Fraction(10) ** (3 * power) for power, suffix in enumerate("num", -3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("", *"kMGTPE"))},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_NUMBER: Final = re.compile(r"([+-]?[0-9.]+)(.*)", re.DOTALL)


@functools.lru_cache(maxsize=4096)
def nano_units(quantity: str) -> int:
    """Return a quantity such as `100m`, `1Gi` or `1e3`, rounded up. Raises ValueError."""
    match = _NUMBER.fullmatch(quantity)
    if match is None:
        raise ValueError(f"expected a quantity, got {quantity!r}")
    number, suffix = match.groups()
    power = _POWERS.get(suffix)
    value = Fraction(number + suffix) if power is None else Fraction(number) * power
    return math.ceil(value * NANO)


def shown(nano: int) -> str:
    """Return an amount for a message: whole units or thousandths, rounded up."""
    whole, rest = divmod(nano, NANO)
    return f"{-(-nano * 1000 // NANO)}m" if rest else str(whole)


def amounts(resource_list: object) -> Counter[str]:
    """Return a resource list of the API in nano-units by resource."""
    quantities = resource_list if isinstance(resource_list, dict) else {}
    return Counter({name: nano_units(str(quantity)) for name, quantity in quantities.items()})


def pod_requests(pod: Json) -> Counter[str]:
    """Return the amounts that a pod takes on its node.

    Init containers run one after another, before the others; sidecars stay. Requests of the pod as
    a whole replace the sums. Resizes in progress are not considered.
    """
    spec = part(pod, "spec")
    total = sum((_requests(item) for item in objects(spec.get("containers"))), Counter[str]())
    sidecars, peak = Counter[str](), Counter[str]()
    for container in objects(spec.get("initContainers")):
        if container.get("restartPolicy") == "Always":
            sidecars += _requests(container)
            peak |= sidecars
        else:
            peak |= sidecars + _requests(container)
    total = (total + sidecars) | peak
    for name, amount in _requests(spec).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            total[name] = amount
    return total + amounts(spec.get("overhead"))


def _requests(holder: Json) -> Counter[str]:
    return amounts(part(holder, "resources").get("requests"))


def part(obj: Json | None, name: str) -> Json:
    """Return the mapping at a field, or an empty one."""
    value = None if obj is None else obj.get(name)
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[Json]:
    """Return the mappings of a list, or an empty one."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
