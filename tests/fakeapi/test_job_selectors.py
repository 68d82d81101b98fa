"""The server gives each new Job a selector of its own, and its template the labels for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .test_actors_jobs import JOBS, job

if TYPE_CHECKING:
    from .api_client import ApiClient

NAME, UID = "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"


async def test_a_job_selects_its_pods_by_its_uid(api: ApiClient) -> None:
    made = await api.create(JOBS, job(selector={"matchLabels": {"app": "a"}}))
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"app": "a", UID: uid}}
    assert made["spec"]["template"]["metadata"]["labels"] == {
        "job-name": "j", NAME: "j", "controller-uid": uid, UID: uid,
    }  # fmt: skip
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]


async def test_a_job_has_the_labels_of_its_template_unless_it_has_its_own(api: ApiClient) -> None:
    body = job()
    body["spec"]["template"]["metadata"] = {"labels": {"app": "a"}}
    made = await api.create(JOBS, body)
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]
    assert {"app", "job-name", UID} <= made["metadata"]["labels"].keys()
    body["metadata"] = {"name": "own", "labels": {"app": "a"}}
    own = await api.create(JOBS, body)
    assert own["metadata"]["labels"] == {"app": "a"}
    assert "job-name" in own["spec"]["template"]["metadata"]["labels"]


async def test_a_generated_name_is_in_the_labels(api: ApiClient) -> None:
    body = job()
    body["metadata"] = {"generateName": "x-"}
    made = await api.create(JOBS, body)
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert labels["job-name"] == made["metadata"]["name"]


async def test_a_manual_selector_is_left_alone(api: ApiClient) -> None:
    body = job(manualSelector=True, selector={"matchLabels": {"app": "a"}})
    body["spec"]["template"]["metadata"] = {"labels": {"app": "a"}}
    made = await api.create(JOBS, body)
    assert made["spec"]["selector"] == {"matchLabels": {"app": "a"}}
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "a"}
