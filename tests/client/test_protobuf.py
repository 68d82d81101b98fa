"""Changes of objects in protobuf."""

import pytest

from scheduler.client.protobuf import edited, field, fields, is_object
from tests.fakeapi.protobuf_writer import enveloped, message, metadata


def test_fields_are_appended_to_the_object_in_its_envelope() -> None:
    stored = message((1, metadata("mine")), (2, b"x" * 300))
    body = enveloped("v1", "ConfigMap", stored)
    appended = field(1, field(14, "keep")) + field(3, "more")
    assert is_object(body)
    assert edited(body, lambda it: it + appended) == enveloped("v1", "ConfigMap", stored + appended)
    assert appended == message((1, message((14, "keep"))), (3, "more"))


def test_a_message_of_texts_is_read() -> None:
    assert list(fields(message((1, "a"), (300, b"b" * 200)))) == [(1, b"a"), (300, b"b" * 200)]
    with pytest.raises(ValueError, match="not a message of texts"):
        list(fields(message((1, "a"), (2, 7))))


@pytest.mark.parametrize("cut", [1, 40, 300])
def test_half_an_envelope_is_an_error(cut: int) -> None:
    body = enveloped("v1", "ConfigMap", message((2, b"x" * 300)))
    with pytest.raises(ValueError, match=r"not a message|ends in the middle"):
        edited(body[:-cut], bytes)


def test_json_is_no_object_in_protobuf() -> None:
    assert not is_object(b'{"kind": "ConfigMap"}')
    with pytest.raises(ValueError, match="not an object"):
        edited(b'{"kind": "ConfigMap"}', bytes)
