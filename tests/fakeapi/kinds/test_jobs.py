"""The server gives each new Job a selector of its own, and its template the labels for it."""

from ..actors.test_jobs import JOBS, job
from ..api_client import ApiClient

NAME, UID = "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"


async def test_a_job_selects_its_pods_by_its_uid(api: ApiClient) -> None:
    made = await api.create(JOBS, job())
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {UID: uid}}
    assert made["spec"]["template"]["metadata"]["labels"] == {
        "job-name": "j", NAME: "j", "controller-uid": uid, UID: uid,
    }  # fmt: skip
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]


async def test_a_selector_of_ones_own_is_for_manual_selectors(api: ApiClient) -> None:
    body = job(selector={"matchLabels": {"app": "a"}})
    bare = await api.post(JOBS, body)
    labels = "spec.template.metadata.labels"
    invalid = "FieldValueInvalid"
    assert (bare.code, bare.causes) == (422, [(invalid, "spec.selector"), (invalid, labels)])
    body["spec"]["template"]["metadata"] = {"labels": {"app": "a"}}
    refused = await api.post(JOBS, body)
    assert refused.causes == [(invalid, "spec.selector")]
    assert f'{{"matchLabels":{{"app":"a","{UID}":"' in refused.message  # sorted, as Go shows it
    assert refused.message.endswith("}}: `selector` not auto-generated")


async def test_labels_that_the_server_gives_are_not_for_authors(api: ApiClient) -> None:
    body = job()
    body["spec"]["template"]["metadata"] = {"labels": {"job-name": "other"}}
    refused = await api.post(JOBS, body)
    assert refused.causes == [("FieldValueInvalid", "spec.template.metadata.labels[job-name]")]
    assert refused.message.endswith(""","job-name":"other"}: must be 'j'""")


async def test_a_manual_selector_must_match_the_labels_of_the_template(api: ApiClient) -> None:
    labels = ("FieldValueInvalid", "spec.template.metadata.labels")
    refused = await api.post(JOBS, job(manualSelector=True))
    assert refused.causes == [("FieldValueRequired", "spec.selector"), labels]
    assert "labels: Invalid value: null: `selector` does not match" in refused.message
    refused = await api.post(JOBS, job(manualSelector=True, selector={"matchLabels": {"a": "b"}}))
    assert refused.causes == [labels]


async def test_the_selector_that_was_made_is_fixed(api: ApiClient) -> None:
    await api.create(JOBS, job())
    change = {"spec": {"selector": {"matchLabels": {"b": "a"}}}}
    refused = await api.patch(f"{JOBS}/j", change)
    # Upstream looks at the spec of an update twice.
    assert [field for _, field in refused.causes] == [
        "spec.selector",
        "spec.template.metadata.labels",
        "spec.template.metadata.labels",
        "spec.selector",
    ]
    assert refused.message.count("`selector` does not match template") == 1
    assert refused.message.endswith("field is immutable]")


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
