"""The form of an answer is chosen as by kube-scheduler v1.36.3, whose choices these are."""

import pytest

from scheduler.serving.negotiation import clauses, negotiated

FORMS = ("application/json", "application/yaml", "text/plain")


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("application/yaml", "application/yaml"),
        ("application/*", "application/json"),
        ("*", "application/json"),
        ("text/html, text/*;q=0.1", "text/plain"),
        ("text/plain;q=0.5, application/yaml;q=0.7", "application/yaml"),
        # A quality orders only. Without a number it is 0.
        ("text/plain;q=0", "text/plain"),
        ("text/plain, application/yaml;q=x", "text/plain"),
        # A wildcard comes last, whatever its quality.
        ("*/*, text/plain;q=0.1", "text/plain"),
        ("text/plain;charset=utf-8;unknown", "text/plain"),
        ("*/plain", None),
        ("text", None),
        ("text/plain/x", None),
        ("application/json;sv=v1", None),
        ("application/json;stream=watch", None),
        ("application/json;as=Table", None),
        (" ", None),
    ],
)
def test_the_first_form_that_a_client_accepts_is_chosen(header: str, chosen: str | None) -> None:
    choice = negotiated(header, FORMS, allows=lambda _, kind: kind is None)
    assert (choice and choice.media_type) == chosen


def test_a_media_type_names_a_kind() -> None:
    header = "text/plain, application/json;v=v1;g=b.c;as=D;pretty=1"
    choice = negotiated(header, FORMS, allows=lambda _, kind: kind is not None)
    assert choice == ("application/json", ("b.c", "v1", "D"), True)


def test_equal_media_types_stay_in_their_order() -> None:
    header = "*/*, a/b;q=0.5, c/d, a/*, e/f;x=y"
    ordered = [f"{clause.type}/{clause.subtype}" for clause in clauses(header)]
    assert ordered == ["c/d", "e/f", "a/*", "a/b", "*/*"]
