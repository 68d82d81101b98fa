"""Profiles of a configuration, and the events their plugins wait for: upstream's own cases."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.api.pod_groups import PodGroup
from scheduler.assembly.profiles import build_profiles
from scheduler.config import (
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    default_config,
    load_config,
    validate_config,
)
from scheduler.extenders import HTTPExtenders
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Plugin,
    PodInfo,
    QueueingHint,
)
from scheduler.framework.registrations import PluginEvents
from scheduler.plugins import SCHEME
from scheduler.queue import build_queueing_hint_map
from scheduler.runtime import Framework, PluginSetupError
from scheduler.testing import FakeHandle, VirtualClock
from scheduler.testing.doubles import FakeLister
from tests.runtime.profiles import framework_of, plugin
from tests.upstream.loading import Case, Fields, cases, feature_gates
from tests.upstream.running import actions, events_in_case

TOPIC = "scheduler_setup"


def _own_hint(waiting: PodInfo, old: object, new: object) -> QueueingHint:
    return QueueingHint.QUEUE_SKIP


def _waiting(name: str, fields: Fields) -> type[Plugin]:
    """Return a filter that registers for events, each with a hint of its own, or names none."""
    methods: dict[str, Any] = {"filter": lambda self, *_: None}
    if "fails" in fields:

        def fail(self: Plugin) -> None:
            raise ValueError(fields["fails"])

        methods["events_to_register"] = fail
    elif "registers" in fields:
        registered = [
            ClusterEventWithHint(ClusterEvent(resource, actions(names)), _own_hint)
            for resource, names in fields["registers"].items()
        ]
        methods["events_to_register"] = lambda self: registered
    return plugin(name, **methods)


def _framework(case: Case) -> Framework:
    handle = FakeHandle(listers={PodGroup: FakeLister()}, feature_gates=feature_gates(case))
    if case.get("default"):
        scheme = SCHEME._replace(gates=feature_gates(case))
        return build_profiles(default_config(scheme), handle.make)["default-scheduler"]
    classes = [_waiting(name, fields) for name, fields in case["plugins"].items()]
    return framework_of(*classes, handle=handle)


def _registered_events(case: Case) -> Sequence[PluginEvents]:
    return [events_in_case(case, of) for of in _framework(case).registered_events]


@pytest.mark.parametrize("case", cases(TOPIC, "queueing_hints"))
def test_queueing_hints(case: Case) -> None:
    if "error" in case.fields:
        with pytest.raises(PluginSetupError, match=case["error"]):
            _framework(case)
        return
    registered = _registered_events(case)
    found = {
        f"{event.resource}/{event.action_type.name}": [
            f"{hint.plugin_name} {'own' if hint.queueing_hint_fn is _own_hint else 'default'}"
            for hint in hints
        ]
        for event, hints in build_queueing_hint_map(registered).items()
    }
    assert found == case["hints"]


@pytest.mark.parametrize("case", cases(TOPIC, "unioned_events"))
def test_unioned_events(case: Case) -> None:
    found: dict[str, ActionType] = {}
    registered = _registered_events(case)
    for event in build_queueing_hint_map(registered):
        before = found.get(event.resource, ActionType.NONE)
        found[str(event.resource)] = before | event.action_type
    assert found == {resource: actions(names) for resource, names in case["events"].items()}


async def _bind(self: Plugin, *arguments: object) -> None:
    """Bind nothing."""


@pytest.mark.parametrize("case", [*cases(TOPIC, "creation"), *cases(TOPIC, "profiles")])
def test_profiles_are_chosen_as_upstreams(case: Case) -> None:
    """Some errors that upstream finds when it builds profiles are found by validation here."""
    profiles = msgspec.convert(case["profiles"], tuple[KubeSchedulerProfile, ...])
    config: KubeSchedulerConfiguration = msgspec.structs.replace(
        default_config(SCHEME), profiles=profiles
    )
    if "invalid" in case.fields:
        assert any(case["invalid"] in str(error) for error in validate_config(config, SCHEME))
        return
    others = [plugin(name, bind=_bind) for name in case.get("plugins") or ()]
    others += [plugin(name, less=lambda self, *_: False) for name in case.get("orders") or ()]
    if "error" in case.fields:
        with pytest.raises(PluginSetupError) as refusal:
            build_profiles(config, FakeHandle().make, plugins=others)
        assert case["error"] in str(refusal.value)
        return
    assert sorted(build_profiles(config, FakeHandle().make, plugins=others)) == case["names"]


@pytest.mark.parametrize("case", cases(TOPIC, "extenders"))
def test_extenders_are_used_as_upstreams(case: Case) -> None:
    configs = msgspec.convert(case["extenders"], tuple[Extender, ...])
    extenders = HTTPExtenders(configs, clock=VirtualClock(), environ={})
    assert [extender.name for extender in extenders.in_order] == case["names"]


@pytest.mark.parametrize("case", cases(TOPIC, "percentage"))
def test_percentage_of_nodes_to_score(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    if "given" in case.fields:
        text += f"percentageOfNodesToScore: {case['given']}\n"
    path.write_text(text, encoding="utf-8")
    assert load_config(path, SCHEME).percentage_of_nodes_to_score == case["percentage"]
