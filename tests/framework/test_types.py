"""A diagnosis: the plugins that rejected, and those that wait."""

from scheduler.framework.status import NodeToStatus, pending, unresolvable, unschedulable
from scheduler.framework.types import Diagnosis


def test_a_diagnosis_keeps_the_plugins_that_rejected_and_those_that_wait() -> None:
    diagnosis = Diagnosis(NodeToStatus((), {}))
    diagnosis.add_plugin_status(unschedulable("a").with_plugin("A"))
    diagnosis.add_plugin_status(unresolvable("b").with_plugin("B"))
    diagnosis.add_plugin_status(pending("c").with_plugin("C"))
    diagnosis.add_plugin_status(unschedulable("nobody's"))
    assert diagnosis.unschedulable_plugins == {"A", "B", "C"}
    assert diagnosis.pending_plugins == {"C"}
