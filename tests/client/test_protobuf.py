"""Fields that are appended to an object in protobuf."""

from __future__ import annotations

import pytest

from scheduler.client.protobuf import field, is_object, with_fields
from tests.fakeapi.protobuf_writer import enveloped, message, metadata


def test_fields_are_appended_to_the_object_in_its_envelope() -> None:
    stored = message((1, metadata("mine")), (2, b"x" * 300))
    body = enveloped("v1", "ConfigMap", stored)
    appended = field(1, field(14, "keep")) + field(3, "more")
    assert is_object(body)
    assert with_fields(body, appended) == enveloped("v1", "ConfigMap", stored + appended)
    assert appended == message((1, message((14, "keep"))), (3, "more"))


@pytest.mark.parametrize("cut", [1, 40, 300])
def test_half_an_envelope_is_an_error(cut: int) -> None:
    body = enveloped("v1", "ConfigMap", message((2, b"x" * 300)))
    with pytest.raises(ValueError, match=r"not the envelope|ends in the middle"):
        with_fields(body[:-cut], b"")


def test_json_is_no_object_in_protobuf() -> None:
    assert not is_object(b'{"kind": "ConfigMap"}')
