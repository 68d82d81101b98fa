"""Translate a policy of v1.13 to v1.22 to a profile, and to the nearest modern configuration.

    policy -> profile in effect      filters of today, scores by v1.13's formulas: this process
           -> modern configuration   plugins that kube-scheduler has; comments for the rest

The filters run in the order of v1.13's predicates. Default plugins without a predicate or priority
(the queue's order, gates, preemption, devices, binding) stay enabled. A custom predicate runs
whatever its name is; v1.13 itself never called predicates with such names.
Source: v1.13 `factory/plugins.go`, `factory/factory.go`, `algorithmprovider/defaults/defaults.go`,
`predicates.Ordering`; v1.19 `framework/plugins/legacy_registry.go`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from scheduler.api.field import quoted
from scheduler.config import ConfigError, default_plugins, load_text
from scheduler.config.encode import encode_struct, go_numbers
from scheduler.config.types import API_VERSION, KIND
from scheduler.flags.policy_document import Policy
from scheduler.plugins import IN_TREE
from scheduler.plugins.legacy import scores, services

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.config import KubeSchedulerConfiguration, Scheme
    from scheduler.config.types import Json
    from scheduler.flags.policy_document import PredicatePolicy, PriorityPolicy
    from scheduler.framework.interface import Plugin

_FIT: Final = "NodeResourcesFit"
_SPREAD: Final = "PodTopologySpread"


class Predicate(msgspec.Struct, frozen=True):
    """A predicate of v1.13: the plugins of today that take its place, and what differs."""

    plugins: tuple[str, ...]
    differs: str = ""


class Priority(msgspec.Struct, frozen=True):
    """A priority of v1.13: the plugin of today with its arguments, and what differs.

    `plugin` is the plugin with v1.13's formula; empty if it has the name of the priority.
    """

    modern: str
    differs: str = ""
    args: dict[str, object] = {}
    plugin: str = ""


class _Tables(msgspec.Struct, frozen=True):
    """The predicates in the order in which v1.13 calls them, and the sets of DefaultProvider."""

    predicates: dict[str, Predicate]
    priorities: dict[str, Priority]
    default_predicates: tuple[str, ...]
    default_priorities: dict[str, int]


_TABLES: Final = msgspec.json.decode(
    Path(__file__).with_name("policies.json").read_bytes(), type=_Tables
)
PREDICATES: Final[Mapping[str, Predicate]] = _TABLES.predicates
PRIORITIES: Final[Mapping[str, Priority]] = _TABLES.priorities
#: The plugins with v1.13's formulas.
LEGACY: Final[Mapping[str, type[Plugin]]] = {plugin.name: plugin for plugin in (
    scores.BalancedResourceAllocation, scores.EqualPriority, scores.ImageLocalityPriority,
    scores.InterPodAffinityPriority, scores.LeastRequestedPriority, scores.MostRequestedPriority,
    scores.NodeAffinityPriority, scores.NodeLabelPriority, scores.NodePreferAvoidPodsPriority,
    scores.RequestedToCapacityRatioPriority, scores.ResourceLimitsPriority,
    scores.TaintTolerationPriority, services.SelectorSpreadPriority,
    services.ServiceAntiAffinityPriority, services.ServiceSpreadingPriority,
)}  # fmt: skip
#: Predicates with an argument are called before this one.
_FIRST_AFTER_CUSTOM: Final = "MaxEBSVolumeCount"
_MANDATORY: Final = ("PodToleratesNodeTaints", "CheckNodeUnschedulable")
_PROVIDERS: Final = ("DefaultProvider", "ClusterAutoscalerProvider")

_VALID_NAME: Final = "^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])$"
_MAX_TOTAL: Final = 2**63 - 1
_WEIGHT_MAX: Final = 2**31 - 1
_ALL: Final = [{"name": "*"}]


class Translation(NamedTuple):
    """A policy as configurations: the one in effect, with its plugins, and the modern one.

    `differences` are sentences: what the modern configuration does otherwise than v1.13.
    """

    config: KubeSchedulerConfiguration
    plugins: tuple[type[Plugin], ...]
    modern: KubeSchedulerConfiguration
    differences: tuple[str, ...]

    def comments(self) -> str:
        """Return the differences as comments in front of the modern configuration."""
        head = "Translated from a policy of kube-scheduler v1.13 to v1.22. What differs:"
        return "".join(f"# {line}\n" for line in (head, *(f"- {d}" for d in self.differences)))


def provider_policy(name: str) -> Policy:
    """Return the policy of an algorithm provider. Raises `ConfigError` for unknown names."""
    if name not in _PROVIDERS:
        shown = quoted(name)
        raise ConfigError(
            f"couldn't create scheduler using provider {shown}: "
            f"plugin {shown} has not been registered"
        )
    return Policy()


def translate(
    policy: Policy, config: KubeSchedulerConfiguration, scheme: Scheme, *, provider: str = ""
) -> Translation:
    """Return `config` with the policy in the place of its profiles. Raises `ConfigError`.

    The plugins without a predicate or priority are the defaults of the version in `scheme`.

    With the provider ClusterAutoscalerProvider, the default priorities are that provider's.
    """
    weight = policy.hard_pod_affinity_symmetric_weight or 1
    effect, modern = _Profile(), _Profile()
    differences: dict[str, None] = {}
    _add_predicates(policy.predicates, effect, modern, differences)
    _add_priorities(_priorities_of(policy, provider), effect, modern, differences)
    if not 1 <= weight <= 100:
        raise ConfigError(
            "couldn't create scheduler from policy: invalid hardPodAffinitySymmetricWeight: "
            f"{weight}, must be in the range 1-100"
        )
    for name, profile in (("InterPodAffinityPriority", effect), ("InterPodAffinity", modern)):
        if name in profile.scores:
            profile.args[name] = {"hardPodAffinityWeight": weight}
    if policy.always_check_all_predicates:
        text = "alwaysCheckAllPredicates: a node is counted with the first reason that rejects it"
        differences[text] = None
    extenders = [go_numbers(encode_struct(extender)) for extender in policy.extenders]
    if policy.extenders:
        # Resources that extenders manage are ignored there.
        effect.args.setdefault(_FIT, {})
        modern.args.setdefault(_FIT, {})
    return Translation(
        _with_profile(config, effect, extenders, scheme),
        tuple(effect.classes.values()),
        _with_profile(config, modern, extenders, scheme),
        tuple(differences),
    )


class _Profile:
    """A profile while it is made: the filters, the weights of the scores, and the arguments."""

    def __init__(self) -> None:
        self.filters: Final[dict[str, None]] = {}
        self.scores: Final[dict[str, int]] = {}
        self.args: Final[dict[str, Json]] = {}
        #: Requirements and preferences of NodeAffinity, and constraints of PodTopologySpread.
        self.required: Final[list[Json]] = []
        self.preferred: Final[list[Json]] = []
        self.constraints: Final[list[Json]] = []
        self.classes: Final[dict[str, type[Plugin]]] = {}

    def use(self, base: type[Plugin], policy_name: str, args: Json) -> str:
        """Add a plugin of v1.13, once for each name in the policy; return its name."""
        plugin = base
        if policy_name != base.name:
            made = type(base.__name__, (base,), {"name": f"{base.name}/{policy_name}"})
            plugin = cast("type[Plugin]", made)
        self.classes[plugin.name] = plugin
        if args:
            self.args[plugin.name] = args
        return plugin.name

    def all_args(self) -> dict[str, Json]:
        """Return the arguments by plugin, with the requirements, preferences and constraints."""
        added: Json = {}
        if self.required:
            terms = [{"matchExpressions": self.required}]
            added["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if self.preferred:
            added["preferredDuringSchedulingIgnoredDuringExecution"] = self.preferred
        args = dict(self.args)
        if added:
            args["NodeAffinity"] = {"addedAffinity": added}
        if self.constraints:
            args[_SPREAD] = {"defaultingType": "List", "defaultConstraints": self.constraints}
        return args

    def to_json(self, scheme: Scheme) -> Json:
        in_policies = {name for row in PREDICATES.values() for name in row.plugins}
        in_policies |= {row.modern for row in PRIORITIES.values()}
        others = [
            plugin.name
            for plugin in default_plugins(scheme.gates, scheme.version).multi_point.enabled
            if plugin.name not in in_policies
        ]
        classes = {**IN_TREE, **self.classes}
        pre_scores = [name for name in self.scores if hasattr(classes[name], "pre_score")]
        weighted = [{"name": name, "weight": weight} for name, weight in self.scores.items()]
        args = [{"name": name, "args": args} for name, args in self.all_args().items()]
        return {
            "schedulerName": "default-scheduler",
            "plugins": {
                "multiPoint": {"disabled": _ALL, "enabled": _named([*self.filters, *others])},
                "preScore": {"disabled": _ALL, "enabled": _named(pre_scores)},
                "score": {"disabled": _ALL, "enabled": weighted},
            },
            "pluginConfig": args,
        }


def _named(names: Iterable[str]) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def _with_profile(
    config: KubeSchedulerConfiguration,
    profile: _Profile,
    extenders: Sequence[object],
    scheme: Scheme,
) -> KubeSchedulerConfiguration:
    """Return a configuration with this profile and these extenders, completed with defaults."""
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "profiles": [profile.to_json(scheme)],
        "extenders": extenders,
    }
    loaded = load_text(json.dumps(document), scheme)
    return msgspec.structs.replace(config, profiles=loaded.profiles, extenders=loaded.extenders)


# Predicates.


def _add_predicates(
    given: Sequence[PredicatePolicy] | None,
    effect: _Profile,
    modern: _Profile,
    differences: dict[str, None],
) -> None:
    """Add the filters of the predicates, in the order of v1.13."""
    custom: dict[str, PredicatePolicy] = {}
    names = set(_TABLES.default_predicates if given is None else ())
    for predicate in given or ():
        if predicate.argument is not None:
            _check_arguments("predicate", "Predicate", predicate.name, predicate.argument)
            _check_name(predicate.name)
            custom[predicate.name] = predicate
        elif predicate.name not in custom:
            if predicate.name not in PREDICATES:
                raise ConfigError(
                    f"Invalid configuration: Predicate type not found for {predicate.name}"
                )
            names.add(predicate.name)
    names |= {*_MANDATORY} - custom.keys()
    for name, row in PREDICATES.items():
        if name == _FIRST_AFTER_CUSTOM:
            for custom_name, predicate in custom.items():
                _add_custom_predicate(custom_name, predicate, effect, modern, differences)
        if name in names - custom.keys():
            effect.filters.update(dict.fromkeys(row.plugins))
            modern.filters.update(dict.fromkeys(row.plugins))
            if row.differs:
                differences[f"{name} is {', '.join(row.plugins)}: {row.differs}"] = None


def _add_custom_predicate(
    name: str,
    predicate: PredicatePolicy,
    effect: _Profile,
    modern: _Profile,
    differences: dict[str, None],
) -> None:
    argument = predicate.argument
    assert argument is not None
    if argument.service_affinity is not None:
        args = _json(argument.service_affinity)
        effect.filters[effect.use(services.CheckServiceAffinity, name, args)] = None
        differences[f"{name} has no successor: services do not limit nodes"] = None
    else:
        assert argument.labels_presence is not None
        args = _json(argument.labels_presence)
        effect.filters[effect.use(services.CheckNodeLabelPresence, name, args)] = None
        modern.filters["NodeAffinity"] = None
        modern.required.extend(
            _expression(label, argument.labels_presence.presence)
            for label in argument.labels_presence.labels
        )
        differences[f"{name} is addedAffinity of NodeAffinity"] = None


def _expression(label: str, presence: object) -> Json:
    return {"key": label, "operator": "Exists" if presence else "DoesNotExist"}


# Priorities.


class _Chosen(NamedTuple):
    """A priority of a policy: the row of the table, or the custom entry, and the weight."""

    weight: int
    custom: PriorityPolicy | None = None


def _priorities_of(policy: Policy, provider: str) -> dict[str, _Chosen]:
    """Return the priorities by name, sorted, with v1.13's checks. Raises `ConfigError`."""
    chosen: dict[str, _Chosen] = {}
    if policy.priorities is None:
        chosen = {name: _Chosen(weight) for name, weight in _TABLES.default_priorities.items()}
        if provider == "ClusterAutoscalerProvider":
            chosen["MostRequestedPriority"] = chosen.pop("LeastRequestedPriority")
    for priority in policy.priorities or ():
        name, custom = priority.name, None
        if priority.argument is not None:
            _check_arguments("priority", "Priority", name, priority.argument)
            _check_shape(priority)
            custom = priority
        elif name in chosen:
            custom = chosen[name].custom
        elif name not in PRIORITIES:
            raise ConfigError(f"Invalid configuration: Priority type not found for {name}")
        _check_name(name)
        chosen[name] = _Chosen(priority.weight, custom)
    if sum(entry.weight * scores.MAX_PRIORITY for entry in chosen.values()) > _MAX_TOTAL:
        raise ConfigError(
            "couldn't create scheduler from policy: "
            "Total priority of priority functions has overflown"
        )
    if wrong := [name for name, entry in chosen.items() if entry.weight > _WEIGHT_MAX]:
        raise ConfigError(f"the weight of priority {wrong[0]} is more than {_WEIGHT_MAX}")
    return dict(sorted(chosen.items()))


def _check_shape(priority: PriorityPolicy) -> None:
    argument = priority.argument
    ratio = argument.requested_to_capacity_ratio_arguments if argument is not None else None
    if ratio is not None and (error := scores.shape_error(ratio.shape)):
        raise ConfigError(f"invalid RequestedToCapacityRatioPriority arguments: {error}")


def _add_priorities(
    chosen: Mapping[str, _Chosen],
    effect: _Profile,
    modern: _Profile,
    differences: dict[str, None],
) -> None:
    for name, (weight, custom) in chosen.items():
        row = PRIORITIES[name] if custom is None else _custom_priority(custom, modern)
        plugin = row.plugin or name
        if plugin in LEGACY:
            plugin = effect.use(LEGACY[plugin], name, _own_args(custom))
        elif custom is not None:
            effect.args[plugin] = dict(row.args)
        effect.scores[plugin] = effect.scores.get(plugin, 0) + weight
        if row.modern:
            strategy = modern.args.get(row.modern)
            if row.modern == _FIT and strategy not in (None, row.args):
                differences[f"{name} is left out: {_FIT} has one strategy only"] = None
                continue
            if row.args and row.modern not in modern.args:
                modern.args[row.modern] = dict(row.args)
            modern.scores[row.modern] = modern.scores.get(row.modern, 0) + weight
        if row.differs:
            successor = f"is {row.modern}" if row.modern else "has no successor"
            differences[f"{name} {successor}: {row.differs}"] = None


def _own_args(custom: PriorityPolicy | None) -> Json:
    """Return the arguments of the plugin with v1.13's formula."""
    argument = custom.argument if custom is not None else None
    if argument is None:
        return {}
    ratio = argument.requested_to_capacity_ratio_arguments
    if ratio is not None:
        return {"shape": [_json(point) for point in ratio.shape]}
    return _json(argument.service_anti_affinity or argument.label_preference)


def _custom_priority(custom: PriorityPolicy, modern: _Profile) -> Priority:
    """Return the row of a priority with an argument; a preferred label is added to `modern`."""
    argument = custom.argument
    assert argument is not None
    if argument.service_anti_affinity is not None:
        label = argument.service_anti_affinity.label
        modern.constraints.append(
            {"maxSkew": 1, "topologyKey": label, "whenUnsatisfiable": "ScheduleAnyway"}
        )
        text = "a default constraint spreads pods with services and controllers"
        return Priority(_SPREAD, text, plugin="ServiceAntiAffinityPriority")
    if argument.label_preference is not None:
        preference = argument.label_preference
        wanted = {"matchExpressions": [_expression(preference.label, preference.presence)]}
        modern.preferred.append({"weight": min(custom.weight, 100), "preference": wanted})
        text = "addedAffinity is scored together with the pod's own preferences"
        return Priority("NodeAffinity", text, plugin="NodeLabelPriority")
    ratio = argument.requested_to_capacity_ratio_arguments
    assert ratio is not None
    shape = {"shape": [_json(point) for point in ratio.shape]}
    strategy: Json = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": shape}
    name = "RequestedToCapacityRatioPriority"
    if not ratio.resources:
        args: dict[str, object] = {"scoringStrategy": strategy}
        return msgspec.structs.replace(PRIORITIES[name], args=args, plugin=name)
    # Resources came with v1.17, whose formula is that of today.
    resources = [_json(resource) for resource in ratio.resources]
    of_today: dict[str, object] = {"scoringStrategy": {**strategy, "resources": resources}}
    return Priority(_FIT, args=of_today, plugin=_FIT)


# Checks, with v1.13's texts.


def _check_arguments(kind: str, title: str, name: str, argument: msgspec.Struct) -> None:
    count = sum(value is not None for value in msgspec.structs.asdict(argument).values())
    if count != 1:
        raise ConfigError(
            f"Exactly 1 {kind} argument is required, numArgs: {count}, {title}: {name}"
        )


def _check_name(name: str) -> None:
    if not re.fullmatch(_VALID_NAME, name):
        raise ConfigError(
            f"Algorithm name {name} does not match the name validation regexp "
            f"{quoted(_VALID_NAME)}."
        )


def _json(struct: msgspec.Struct | None) -> Json:
    converted = msgspec.to_builtins(struct)
    assert isinstance(converted, dict)
    return converted
