"""The rules of devices: which devices a pod's claims can get, found by trying all choices.

    claims, node, state --allocations--> the devices of each claim, one choice after another

Small clusters only: the number of choices grows fast. Of selectors in CEL, comparisons of `driver`
and of attributes with constants are understood. Other forms are not judged (`Unjudged`).
Source: the API's reference of resource.k8s.io/v1.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ..format.reading import name_of
from ..format.resources import NANO, nano_units, objects, part, pod_requests
from .matching import any_term_matches, repelling_taints, tolerates
from .state import uid_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..api import Json
    from .state import State

_COMPARISON: Final = re.compile(
    r"device\.(?:driver|attributes\[['\"](?P<domain>[^'\"]+)['\"]\]\.(?P<name>\w+))"
    r"\s*==\s*(?P<value>-?\d+|true|false|'[^']*'|\"[^\"]*\")"
)
_RESULTS_MAX: Final = 32
#: More steps than any choice in a small cluster needs.
_STEPS_MAX: Final = 20_000


class Unjudged(Exception):
    """A claim or a device has a form that these rules do not know."""


class Device(NamedTuple):
    """A device: its place, its entry in the slice, and the slice's spec."""

    driver: str
    pool: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A device that a claim has. `amounts` are the capacity that it takes of a shared device."""

    device: Device
    amounts: Counter[str] = field(default_factory=Counter)
    is_admin: bool = False


class Devices:
    """The devices of a cluster, from the newest slices of each pool."""

    def __init__(self, state: State) -> None:
        self._classes = {
            str(part(each, "metadata")["name"]): each for each in state.of_kind("DeviceClass")
        }
        self._entries: dict[Device, Json] = {}
        self._specs: dict[Device, Json] = {}
        self._counters: dict[tuple[str, str, str], Counter[str]] = {}
        self.is_judged = not state.of_kind("DeviceTaintRule")
        self.incomplete: set[tuple[str, str]] = set()
        specs = [part(each, "spec") for each in state.of_kind("ResourceSlice")]
        pools: dict[tuple[str, str], list[Json]] = {}
        for spec in specs:
            key = str(spec["driver"]), str(part(spec, "pool")["name"])
            pools.setdefault(key, []).append(spec)
        for key, some in pools.items():
            self._add_pool(key, some)
        self.taken = [
            taken for claim in state.of_kind("ResourceClaim") for taken in self.taken_by(claim)
        ]

    def _add_pool(self, key: tuple[str, str], specs: Sequence[Json]) -> None:
        newest = max(int(str(part(spec, "pool")["generation"])) for spec in specs)
        current = [spec for spec in specs if part(spec, "pool")["generation"] == newest]
        names = [str(each["name"]) for spec in current for each in objects(spec.get("devices"))]
        is_complete = len(current) == part(current[0], "pool")["resourceSliceCount"]
        if not is_complete or len(names) > len({*names}):
            self.incomplete.add(key)
        for spec in current:
            for entry in objects(spec.get("devices")):
                device = Device(*key, str(entry["name"]))
                self._entries[device], self._specs[device] = entry, spec
            for counters in objects(spec.get("sharedCounters")):
                self._counters[*key, str(counters["name"])] = _values(part(counters, "counters"))

    def _results(self, claim: Json) -> Iterator[tuple[Device, Json]]:
        """Yield the devices of a claim, as far as a slice still has them, with their results."""
        allocation = part(part(claim, "status"), "allocation")
        for result in objects(part(allocation, "devices").get("results")):
            device = Device(*(str(result[name]) for name in ("driver", "pool", "device")))
            if device in self._entries:
                yield device, result

    def chosen(self, claim: Json) -> Iterator[_Chosen]:
        """Yield the devices of a claim with the names of their requests."""
        for device, result in self._results(claim):
            name = str(result.get("request"))
            yield _Chosen(0, (name.partition("/")[0], name), device)

    def taken_by(self, claim: Json) -> Iterator[Taken]:
        """Yield the devices of a claim, as far as a slice still has them."""
        for device, result in self._results(claim):
            yield Taken(
                device=device,
                amounts=_quantities(part(result, "consumedCapacity")),
                is_admin=result.get("adminAccess") is True,
            )

    def conflict(self, taken: Iterable[Taken]) -> str | None:
        """Return why devices cannot be taken together; None if they can.

        A device is for one claim, or its capacity suffices for all its claims. A device takes its
        counters once. Admin access takes nothing.
        """
        using = [one for one in taken if not one.is_admin]
        for device, count in Counter(one.device for one in using).items():
            if count > 1 and not self.is_shared(device):
                return f"device {device} is allocated {count} times"
            offered = part(self._entries[device], "capacity")
            amounts = sum((one.amounts for one in using if one.device == device), Counter[str]())
            for name, amount in amounts.items():
                if amount > nano_units(str(part(offered, name).get("value", "0"))):
                    return (
                        f"more of the capacity {name} of device {device} is allocated than it has"
                    )
        used: dict[tuple[str, str, str], Counter[str]] = {}
        for device in {one.device: None for one in using}:
            for consumed in objects(self._entries[device].get("consumesCounters")):
                key = device.driver, device.pool, str(consumed["counterSet"])
                used.setdefault(key, Counter()).update(_values(part(consumed, "counters")))
        for key, wanted in used.items():
            there = self._counters.get(key, Counter())
            if any(amount > there[name] for name, amount in wanted.items()):
                return f"more of the counters {'/'.join(key)} is allocated than there is"
        return None

    def is_shared(self, device: Device) -> bool:
        """Return True if several claims can share a device."""
        return self._entries[device].get("allowMultipleAllocations") is True

    def choices(
        self, claims: Sequence[Json], node: Json, taken: Sequence[Taken]
    ) -> Iterator[list[Taken]]:
        """Yield all ways to give claims devices of a node that are not `taken`.

        Raises Unjudged.
        """
        here = self.reachable(node)
        wishes = [
            (number, request)
            for number, claim in enumerate(claims)
            for request in objects(part(part(claim, "spec"), "devices").get("requests"))
        ]
        search = _Search(self, claims, here)
        for chosen in search.run(wishes, (), tuple(taken)):
            yield list(chosen)

    def reachable(self, node: Json) -> list[Device]:
        """Return the devices for a node. Raises Unjudged."""
        if not self.is_judged or any(device_is_odd(each) for each in self._entries.values()):
            raise Unjudged
        return [device for device in self._entries if self._is_reachable(device, node)]

    def _is_reachable(self, device: Device, node: Json) -> bool:
        spec = self._specs[device]
        where = self._entries[device] if spec.get("perDeviceNodeSelection") is True else spec
        name = part(node, "metadata").get("name")
        if where.get("nodeName"):
            return where["nodeName"] == name
        if where.get("allNodes") is True:
            return True
        terms = objects(part(where, "nodeSelector").get("nodeSelectorTerms"))
        return any_term_matches(terms, node)

    def matching(self, request: Json, here: Iterable[Device]) -> list[Device]:
        """Return the devices that the selectors of a request select. Raises Unjudged."""
        device_class = self._classes.get(str(request.get("deviceClassName")))
        if device_class is None:
            return []
        rules = [*objects(part(device_class, "spec").get("selectors"))]
        rules += objects(request.get("selectors"))
        texts = [str(part(rule, "cel").get("expression")) for rule in rules]
        return [
            device
            for device in here
            if all(_is_true(text, device, self._entries[device]) for text in texts)
            and self._is_tolerated(device, request)
        ]

    def _is_tolerated(self, device: Device, request: Json) -> bool:
        taints = repelling_taints({"spec": {"taints": self._entries[device].get("taints")}})
        tolerant: Json = {"spec": {"tolerations": request.get("tolerations") or []}}
        return all(tolerates(tolerant, taint) for taint in taints)

    def given(self, device: Device, request: Json) -> Taken | None:
        """Return a device as it is taken by a request; None if its capacity can never do.

        A name of a capacity without a domain belongs to the driver.
        """
        own = f"{device.driver}/"
        entry = part(self._entries[device], "capacity")
        offered = {name.removeprefix(own): entry[name] for name in entry}
        asked = part(part(request, "capacity"), "requests")
        wanted = {name.removeprefix(own): asked[name] for name in asked}
        if not wanted.keys() <= offered.keys():
            return None
        amounts = {name: _amount(wanted.get(name), part(offered, name)) for name in offered}
        if any(
            amount is None or amount > nano_units(str(part(offered, name)["value"]))
            for name, amount in amounts.items()
        ):
            return None
        found = Counter({name: amount for name, amount in amounts.items() if amount is not None})
        is_admin = request.get("adminAccess") is True
        return Taken(
            device=device,
            amounts=found if self.is_shared(device) else Counter(),
            is_admin=is_admin,
        )

    def attribute(self, device: Device, name: str) -> object:
        """Return the value of an attribute by its full name; None without one."""
        attributes = part(self._entries[device], "attributes")
        domain, _, identifier = name.partition("/")
        value = attributes.get(name)
        if value is None and domain == device.driver:
            value = attributes.get(identifier)
        return tuple(sorted(value.items())) if isinstance(value, dict) else None

    def is_whole(self, device: Device) -> bool:
        """Return True if all slices of a device's pool are there, and no name is twice."""
        return (device.driver, device.pool) not in self.incomplete


def device_is_odd(entry: Json) -> bool:
    """Return True if a device has fields that these rules do not know."""
    known = {
        "name",
        "attributes",
        "capacity",
        "consumesCounters",
        "taints",
        "allowMultipleAllocations",
        "nodeName",
        "nodeSelector",
        "allNodes",
    }
    return not entry.keys() <= known


class _Chosen(NamedTuple):
    """A device that was chosen for a request of a claim."""

    claim: int
    names: tuple[str, str]
    device: Device


class _Search:
    """The search for the devices of some claims on one node."""

    def __init__(self, devices: Devices, claims: Sequence[Json], here: Sequence[Device]) -> None:
        self._devices = devices
        self._here = here
        self._steps = 0
        self._claims = claims

    def run(
        self,
        wishes: Sequence[tuple[int, Json]],
        chosen: tuple[_Chosen, ...],
        taken: tuple[Taken, ...],
    ) -> Iterator[tuple[Taken, ...]]:
        if not wishes:
            yield taken
            return
        (claim, request), *rest = wishes
        name = str(request["name"])
        for option in objects(request.get("firstAvailable")) or [part(request, "exactly")]:
            names = name, f"{name}/{option.get('name', '')}"
            for some in self._sets(option):
                self._steps += 1
                if self._steps > _STEPS_MAX:
                    raise Unjudged
                more = (*chosen, *(_Chosen(claim, names, one.device) for one in some))
                now = (*taken, *some)
                own = (one for one in more if one.claim == claim)
                is_met = _keeps_constraints(self._devices, self._claims[claim], own)
                if is_met and not self._devices.conflict(now):
                    yield from self.run(rest, more, now)

    def _sets(self, option: Json) -> Iterator[tuple[Taken, ...]]:
        """Yield the sets of devices for a request, or for one of its alternatives."""
        matching = self._devices.matching(option, self._here)
        given = [self._devices.given(device, option) for device in matching]
        if option.get("allocationMode") == "All":
            if not all(map(self._devices.is_whole, self._here)):
                return
            if any(map(self._devices.is_shared, matching)):
                raise Unjudged
            whole = tuple(one for one in given if one is not None)
            if 0 < len(whole) == len(matching) <= _RESULTS_MAX:
                yield whole
            return
        usable = [one for one in given if one is not None and self._devices.is_whole(one.device)]
        count = int(str(option.get("count") or 1))
        if count <= min(len(usable), _RESULTS_MAX):
            yield from itertools.combinations(usable, count)


def _keeps_constraints(devices: Devices, claim: Json, chosen: Iterable[_Chosen]) -> bool:
    """Return True if the devices for the requests of a claim meet its constraints."""
    own = [*chosen]
    for rule in objects(part(part(claim, "spec"), "devices").get("constraints")):
        about = rule.get("requests") or []
        assert isinstance(about, list)
        concerned = [one.device for one in own if not about or {*one.names} & {*about}]
        name = rule.get("matchAttribute") or rule.get("distinctAttribute")
        values = [devices.attribute(device, str(name)) for device in concerned]
        number = len({*values})
        if None in values or (number > 1 if "matchAttribute" in rule else number < len(values)):
            return False
    return True


def _is_true(expression: str, device: Device, entry: Json) -> bool:
    """Evaluate comparisons that are joined by `&&`. Raises Unjudged."""
    for text in expression.split("&&"):
        found = _COMPARISON.fullmatch(text.strip())
        if found is None:
            raise Unjudged
        wanted = found["value"].strip("'\"")
        there: object = device.driver
        if found["name"] is not None:
            attributes = part(entry, "attributes")
            name = found["name"] if found["domain"] == device.driver else ""
            values = part(attributes, name or f"{found['domain']}/{found['name']}")
            if not values:
                raise Unjudged
            (there,) = values.values()
        if (str(there).lower() if isinstance(there, bool) else str(there)) != wanted:
            return False
    return True


def _amount(wanted: object, offered: Json) -> int | None:
    """Return how much of a capacity a request takes, by the policy; None if that is impossible."""
    policy = part(offered, "requestPolicy")
    if wanted is None:
        return nano_units(str(policy.get("default") or offered["value"]))
    amount = nano_units(str(wanted))
    values = policy.get("validValues")
    if isinstance(values, list) and values:
        return min((v for v in map(nano_units, map(str, values)) if v >= amount), default=None)
    limits = part(policy, "validRange")
    if not limits:
        return amount
    if (amount % NANO) or any(nano_units(str(limit)) % NANO for limit in limits.values()):
        raise Unjudged
    least, step = (nano_units(str(limits.get(name) or "0")) for name in ("min", "step"))
    amount = max(amount, least)
    if step:
        amount = least - (least - amount) // step * step
    most = limits.get("max")
    return None if most is not None and amount > nano_units(str(most)) else amount


def _values(counters: Json) -> Counter[str]:
    return Counter({name: nano_units(str(part(counters, name)["value"])) for name in counters})


def _quantities(amounts: Json) -> Counter[str]:
    return Counter({name: nano_units(str(amount)) for name, amount in amounts.items()})


def claims_of(pod: Json, state: State) -> list[Json | None]:
    """Return the claims of a pod; None for one that does not exist yet."""
    statuses = objects(part(pod, "status").get("resourceClaimStatuses"))
    made = {str(each["name"]): each.get("resourceClaimName") for each in statuses}
    found: list[Json | None] = []
    for entry in objects(part(pod, "spec").get("resourceClaims")):
        name = entry.get("resourceClaimName")
        if name is None and entry["name"] in made:
            name = made[str(entry["name"])]
            if name is None:
                continue
        namespace = str(part(pod, "metadata").get("namespace"))
        claim = state.find("ResourceClaim", str(name), namespace) if name is not None else None
        found.append(claim)
    return found


def devices(pod: Json, node: Json, state: State) -> str | None:
    """Look for devices of the node for each claim of the pod. Source: DynamicResources."""
    names = {
        part(each, "spec").get("extendedResourceName") for each in state.of_kind("DeviceClass")
    }
    if names & {*pod_requests(pod)}:
        return "its resources may come from devices, which is not judged"
    claims = claims_of(pod, state)
    if None in claims:
        return "a claim of it does not exist"
    open_claims: list[Json] = []
    for claim in (each for each in claims if each is not None):
        allocation = part(part(claim, "status"), "allocation")
        if part(claim, "metadata").get("deletionTimestamp"):
            return f"its claim {name_of(claim)} is being deleted"
        if not allocation:
            open_claims.append(claim)
        elif not _is_allowed(allocation, node):
            return f"its claim {name_of(claim)} is allocated for other nodes"
    if not open_claims:
        return None
    there = Devices(state)
    try:
        choice = next(there.choices(open_claims, node, there.taken), None)
    except Unjudged:
        return "its claims or the devices have forms that are not judged"
    return None if choice is not None else "no choice of devices of the node meets its claims"


def _is_allowed(allocation: Json, node: Json) -> bool:
    selector = part(allocation, "nodeSelector")
    return not selector or any_term_matches(objects(selector.get("nodeSelectorTerms")), node)


def held_claims(pod: Json, node: Json, state: State) -> str | None:
    """Look for claims that a pod cannot use on the node to which it is bound."""
    there = Devices(state)
    for claim in claims_of(pod, state):
        if claim is None:
            return "a claim of it does not exist"
        status = part(claim, "status")
        allocation = part(status, "allocation")
        if not allocation:
            return f"its claim {name_of(claim)} is not allocated"
        if not _is_allowed(allocation, node):
            return f"its claim {name_of(claim)} is allocated for other nodes"
        users = [user.get("uid") for user in objects(status.get("reservedFor"))]
        if uid_of(pod) not in users:
            return f"its claim {name_of(claim)} is not reserved for it"
        if not _keeps_constraints(there, claim, there.chosen(claim)):
            return f"the devices of its claim {name_of(claim)} do not meet a constraint"
        if users == [uid_of(pod)] and not _has_all(there, claim, node):
            return f"its claim {name_of(claim)} has some devices of those that it wants all of"
    return None


def _has_all(devices: Devices, claim: Json, node: Json) -> bool:
    """Return True if a claim has all devices of a node that a request for all of them selects."""
    chosen = [*devices.chosen(claim)]
    try:
        here = devices.reachable(node)
        for request in objects(part(part(claim, "spec"), "devices").get("requests")):
            for option in objects(request.get("firstAvailable")) or [part(request, "exactly")]:
                name = (
                    f"{request['name']}/{option['name']}" if "name" in option else request["name"]
                )
                own = {one.device for one in chosen if one.names[1] == name}
                if own and option.get("allocationMode") == "All":
                    wanted = devices.matching(option, here)
                    if not own >= {each for each in wanted if devices.given(each, option)}:
                        return False
    except Unjudged:
        pass
    return True
