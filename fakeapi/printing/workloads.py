"""Rows of what makes pods, and of budgets for them.

Source: pkg/printers/internalversion/printers.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.printing.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    age_of,
    containers_cells,
    count_at,
    integers,
    labels_text,
    length_at,
    mappings_at,
    selector_text,
    shown,
    since,
    text_at,
    texts_columns,
    value_at,
    wide,
)
from fakeapi.printing.durations import age
from fakeapi.types.objects import is_deleting, mapping, mappings, metadata_of, name_of, text
from fakeapi.types.printer import Column, Printer

if TYPE_CHECKING:
    from fakeapi.types.objects import Json

_WIDE: Final = wide("Containers", "Images", "Selector")
_POD_SPEC: Final = ("spec", "template", "spec")
#: The first of these conditions that is true names the state of a job; a deleted one comes third.
_JOB_STATES: Final = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
_METRICS_SHOWN: Final = 2


def _template(obj: Json) -> tuple[str, str]:
    return containers_cells(mappings_at(obj, *_POD_SPEC, "containers"))


def _deployment(obj: Json, now: float) -> list[object]:
    return [
        name_of(obj),
        f"{count_at(obj, 'status', 'readyReplicas')}/{count_at(obj, 'spec', 'replicas')}",
        count_at(obj, "status", "updatedReplicas"),
        count_at(obj, "status", "availableReplicas"),
        age_of(obj, now),
        *_template(obj),
        selector_text(value_at(obj, "spec", "selector"), nothing=""),
    ]


def _replicas(obj: Json, now: float) -> list[object]:
    return [
        name_of(obj),
        count_at(obj, "spec", "replicas"),
        count_at(obj, "status", "replicas"),
        count_at(obj, "status", "readyReplicas"),
        age_of(obj, now),
        *_template(obj),
    ]


def _replica_set(obj: Json, now: float) -> list[object]:
    return [*_replicas(obj, now), selector_text(value_at(obj, "spec", "selector"))]


def _replication_controller(obj: Json, now: float) -> list[object]:
    return [*_replicas(obj, now), labels_text(value_at(obj, "spec", "selector"))]


def _stateful_set(obj: Json, now: float) -> list[object]:
    ready = f"{count_at(obj, 'status', 'readyReplicas')}/{count_at(obj, 'spec', 'replicas')}"
    return [name_of(obj), ready, age_of(obj, now), *_template(obj)]


def _daemon_set(obj: Json, now: float) -> list[object]:
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name_of(obj),
        *(count_at(obj, "status", count) for count in counts),
        labels_text(value_at(obj, *_POD_SPEC, "nodeSelector")),
        age_of(obj, now),
        *_template(obj),
        selector_text(value_at(obj, "spec", "selector")),
    ]


def _job_state(obj: Json) -> str:
    conditions: dict[str, bool] = {}
    for condition in mappings_at(obj, "status", "conditions"):
        conditions.setdefault(text(condition.get("type")), condition.get("status") == "True")
    conditions[""] = is_deleting(obj)
    return next((state for name, state in _JOB_STATES if conditions.get(name)), "Running")


def _job(obj: Json, now: float) -> list[object]:
    succeeded, completions = (
        count_at(obj, "status", "succeeded"),
        value_at(obj, "spec", "completions"),
    )
    parallelism = count_at(obj, "spec", "parallelism")
    progress = f"{succeeded}/{1 if completions is None else completions}"
    if completions is None and parallelism > 1:
        progress += f" of {parallelism}"
    status = mapping(obj.get("status"))
    return [
        name_of(obj),
        _job_state(obj),
        progress,
        since(status.get("startTime"), status.get("completionTime"), now),
        age_of(obj, now),
        *_template(obj),
        selector_text(value_at(obj, "spec", "selector")),
    ]


def _cron_job(obj: Json, now: float) -> list[object]:
    last, suspend = value_at(obj, "status", "lastScheduleTime"), value_at(obj, "spec", "suspend")
    job = mapping(value_at(obj, "spec", "jobTemplate"))
    return [
        name_of(obj),
        text_at(obj, "spec", "schedule"),
        text_at(obj, "spec", "timeZone") or NONE,
        UNSET if suspend is None else str(suspend),
        length_at(obj, "status", "active"),
        NONE if last is None else age(last, now),
        age_of(obj, now),
        *_template(job),
        selector_text(value_at(job, "spec", "selector")),
    ]


def _budget(obj: Json, now: float) -> list[object]:
    spec = mapping(obj.get("spec"))
    return [
        name_of(obj),
        shown(spec.get("minAvailable", "N/A")),
        shown(spec.get("maxUnavailable", "N/A")),
        count_at(obj, "status", "disruptionsAllowed"),
        age_of(obj, now),
    ]


def _controller_revision(obj: Json, now: float) -> list[object]:
    owner = next(
        (o for o in mappings(metadata_of(obj).get("ownerReferences")) if o.get("controller")), None
    )
    controller = NONE
    if owner is not None:
        group = text(owner.get("apiVersion")).rpartition("/")[0]
        kind = text(owner.get("kind")) + (f".{group}" if group else "")
        controller = f"{kind.lower()}/{text(owner.get('name'))}"
    return [name_of(obj), controller, obj.get("revision", 0), age_of(obj, now)]


def _pod_group(obj: Json, now: float) -> list[object]:
    conditions = {text(c.get("type")): c for c in mappings_at(obj, "status", "conditions")}
    status = "Pending"
    if (scheduled := conditions.get("PodGroupScheduled")) is not None:
        status = "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    if (disrupted := conditions.get("DisruptionTarget")) is not None:
        status = text(disrupted.get("reason"))
    reference = mapping(value_at(obj, "spec", "podGroupTemplateRef"))
    return [
        name_of(obj),
        "Basic" if value_at(obj, "spec", "schedulingPolicy", "gang") is None else "Gang",
        text_at(reference, "workload", "workloadName") if reference else NONE,
        status,
        age_of(obj, now),
    ]


def _target(metric: Json, current: Json) -> str:
    """What one metric of an autoscaler is at, and where it shall be."""
    kind = text(metric.get("type"))
    part = kind[:1].lower() + kind[1:]
    wanted = mapping(value_at(metric, part, "target"))
    now = mapping(value_at(current, part, "current"))
    if kind not in ("External", "Pods", "Object", "Resource", "ContainerResource"):
        return "<unknown type>"
    prefix = ""
    if kind.endswith("Resource"):
        prefix = f"{text_at(metric, part, 'name')}: "
    if "averageValue" in wanted:
        mark = " (avg)" if kind in ("External", "Object") else ""
        return f"{prefix}{now.get('averageValue', UNKNOWN)}/{wanted['averageValue']}{mark}"
    if not prefix:
        return f"{now.get('value', UNKNOWN)}/{wanted.get('value', '0')}"
    is_at, shall = now.get("averageUtilization"), wanted.get("averageUtilization")
    return (
        f"{prefix}{UNKNOWN if is_at is None else f'{is_at}%'}"
        f"/{'<auto>' if shall is None else f'{shall}%'}"
    )


def _targets(obj: Json) -> str:
    metrics = mappings_at(obj, "spec", "metrics")
    statuses = mappings_at(obj, "status", "currentMetrics")
    lines = [
        _target(metric, statuses[index] if index < len(statuses) else {})
        for index, metric in enumerate(metrics)
    ]
    if not lines:
        return NONE
    line = ", ".join(lines[:_METRICS_SHOWN])
    more = len(lines) - _METRICS_SHOWN
    return f"{line} + {more} more..." if more > 0 else line


def _autoscaler(obj: Json, now: float) -> list[object]:
    lowest = value_at(obj, "spec", "minReplicas")
    reference = mapping(value_at(obj, "spec", "scaleTargetRef"))
    return [
        name_of(obj),
        f"{text(reference.get('kind'))}/{text(reference.get('name'))}",
        _targets(obj),
        UNSET if lowest is None else str(lowest),
        count_at(obj, "spec", "maxReplicas"),
        count_at(obj, "status", "currentReplicas"),
        age_of(obj, now),
    ]


def _scale(obj: Json, now: float) -> list[object]:
    replicas = count_at(obj, "spec", "replicas"), count_at(obj, "status", "replicas")
    return [name_of(obj), *replicas, age_of(obj, now)]


_REPLICAS: Final = (NAME, *integers("Desired", "Current", "Ready"), AGE, *_WIDE)
SCALE: Final = Printer((Column("Name"), *integers("Desired", "Available"), AGE), _scale)
PRINTERS: Final = {
    ("apps", "deployments"): Printer(
        (NAME, *texts_columns("Ready", "Up-to-date", "Available"), AGE, *_WIDE), _deployment
    ),
    ("apps", "replicasets"): Printer(_REPLICAS, _replica_set),
    ("", "replicationcontrollers"): Printer(_REPLICAS, _replication_controller),
    ("apps", "statefulsets"): Printer(
        (NAME, Column("Ready"), AGE, *wide("Containers", "Images")), _stateful_set
    ),
    ("apps", "daemonsets"): Printer(
        (
            NAME,
            *integers("Desired", "Current", "Ready", "Up-to-date", "Available"),
            Column("Node Selector"),
            AGE,
            *_WIDE,
        ),
        _daemon_set,
    ),
    ("apps", "controllerrevisions"): Printer(
        (NAME, *texts_columns("Controller", "Revision"), AGE), _controller_revision
    ),
    ("batch", "jobs"): Printer(
        (NAME, *texts_columns("Status", "Completions", "Duration"), AGE, *_WIDE), _job
    ),
    ("batch", "cronjobs"): Printer(
        (
            NAME,
            *texts_columns("Schedule", "Timezone"),
            Column("Suspend", "boolean"),
            Column("Active", "integer"),
            Column("Last Schedule"),
            AGE,
            *_WIDE,
        ),
        _cron_job,
    ),
    ("policy", "poddisruptionbudgets"): Printer(
        (
            NAME,
            *texts_columns("Min Available", "Max Unavailable"),
            *integers("Allowed Disruptions"),
            AGE,
        ),
        _budget,
    ),
    ("scheduling.k8s.io", "podgroups"): Printer(
        (NAME, *texts_columns("Policy", "Workload", "Status"), AGE), _pod_group
    ),
    ("autoscaling", "horizontalpodautoscalers"): Printer(
        (NAME, *texts_columns("Reference", "Targets", "MinPods", "MaxPods", "Replicas"), AGE),
        _autoscaler,
    ),
}
