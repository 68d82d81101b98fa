"""What is refused of CronJobs, in upstream's words: recorded from a kube-apiserver v1.36.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..api_client import ApiClient

PATH = "/apis/batch/v1/namespaces/default/cronjobs"
JOB = {
    "template": {
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
    }
}
NO_ZONE = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"


def cron_job(name: str = "c", job: dict[str, Any] = JOB, **spec: Any) -> dict[str, Any]:
    spec = {"schedule": "@daily", "jobTemplate": {"spec": job}, **spec}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("-1 * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("*/-2 * * * *", "negative number (-2) not allowed: -2"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * 13 *", "end of range (13) above maximum (12): 13"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        (
            "99999999999999999999 * * * *",
            "failed to parse int from 99999999999999999999: strconv.Atoi: parsing "
            '"99999999999999999999": value out of range',
        ),
        ("@foo", "unrecognized descriptor: @foo"),
        ("@daily ", "unrecognized descriptor: @daily "),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("@every ", 'failed to parse duration @every : time: invalid duration ""'),
        ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
        (
            "@every 5d",
            'failed to parse duration @every 5d: time: unknown unit "d" in duration "5d"',
        ),
    ],
)
async def test_schedules_that_cannot_be_read(api: ApiClient, schedule: str, why: str) -> None:
    reply = await api.post(PATH, cron_job(schedule=schedule))
    shown = f'CronJob.batch "c" is invalid: spec.schedule: Invalid value: "{schedule}": {why}'
    assert (reply.code, reply.message) == (422, shown)


@pytest.mark.parametrize(
    "schedule",
    [
        "0 5 * * ?",
        "*/15 0-6,22-23 1,15 * 1-5",
        "5/10 * * JAN-mar mon-Fri",
        " 0\t0 * * * ",
        ", * * * *",
        "@yearly",
        "@midnight",
        "@every 1h30m",
        "@every -1.5s",
    ],
)
async def test_schedules_that_can_be_read(api: ApiClient, schedule: str) -> None:
    made = await api.create(PATH, cron_job(schedule=schedule))
    assert made["spec"]["schedule"] == schedule


@pytest.mark.parametrize(
    ("schedule", "more"),
    [
        ("TZ=UTC 0 * * * *", []),
        ("CRON_TZ= @daily", []),
        ("TZ=UTC", ["invalid schedule format: runtime error: slice bounds out of range [:-1]"]),
        ("TZ=Nope/X 0 * * * *", ["provided bad location Nope/X: unknown time zone Nope/X"]),
        ("CRON_TZ=../x @daily", ["provided bad location ../x: time: invalid location name"]),
    ],
)
async def test_time_zones_are_not_for_schedules(
    api: ApiClient, schedule: str, more: list[str]
) -> None:
    reply = await api.post(PATH, cron_job(schedule=schedule))
    whys = [cause["message"] for cause in reply.body["details"]["causes"]]
    assert whys == [f'Invalid value: "{schedule}": {why}' for why in [*more, NO_ZONE]]


EXPLICIT = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"


@pytest.mark.parametrize(
    ("zone", "whys"),
    [
        ("", ["timeZone must be nil or non-empty string"]),
        ("Local", [EXPLICIT]),
        ("local", [EXPLICIT, "unknown time zone local"]),
        ("Mars/Base", ["unknown time zone Mars/Base"]),
        ("Europe/../Berlin", ["unknown time zone Europe/../Berlin"]),
        ("-x", ["unknown time zone -x"]),
        ("a b", ["unknown time zone a b"]),
    ],
)
async def test_time_zones_that_there_are_not(api: ApiClient, zone: str, whys: list[str]) -> None:
    reply = await api.post(PATH, cron_job(timeZone=zone))
    assert {cause["field"] for cause in reply.body["details"]["causes"]} == {"spec.timeZone"}
    messages = [cause["message"] for cause in reply.body["details"]["causes"]]
    assert messages == [f'Invalid value: "{zone}": {why}' for why in whys]


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "Europe/Berlin"])
async def test_time_zones_that_there_are(api: ApiClient, zone: str) -> None:
    await api.create(PATH, cron_job(timeZone=zone))


async def test_numbers_and_policy(api: ApiClient) -> None:
    limits = {"successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -2}
    body = cron_job(startingDeadlineSeconds=-1, concurrencyPolicy="X", **limits)
    reply = await api.post(PATH, body)
    assert reply.causes == [
        ("FieldValueInvalid", "spec.startingDeadlineSeconds"),
        ("FieldValueNotSupported", "spec.concurrencyPolicy"),
        ("FieldValueInvalid", "spec.successfulJobsHistoryLimit"),
        ("FieldValueInvalid", "spec.failedJobsHistoryLimit"),
    ]
    reply = await api.post(PATH, cron_job(schedule=""))
    assert reply.causes == [("FieldValueRequired", "spec.schedule")]


async def test_its_jobs_have_no_selectors_of_their_own(api: ApiClient) -> None:
    own = {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}
    reply = await api.post(PATH, cron_job(job=JOB | own))
    assert reply.message == (
        'CronJob.batch "c" is invalid: [spec.jobTemplate.spec.selector: Invalid value: '
        '{"matchLabels":{"a":"b"}}: `selector` will be auto-generated, '
        "spec.jobTemplate.spec.manualSelector: Unsupported value: true: "
        'supported values: "nil", "false"]'
    )


async def test_names_leave_room_for_those_of_the_jobs(api: ApiClient) -> None:
    await api.create(PATH, cron_job("a" * 52))
    reply = await api.post(PATH, cron_job("a" * 53))
    assert reply.causes == [("FieldValueInvalid", "metadata.name")]


async def test_updates_are_checked_as_well(api: ApiClient) -> None:
    await api.create(PATH, cron_job())
    reply = await api.patch(f"{PATH}/c", {"spec": {"schedule": "TZ=UTC @daily"}})
    assert reply.message.endswith(NO_ZONE)
    assert (await api.patch(f"{PATH}/c", {"spec": {"schedule": "@hourly"}})).code == 200
