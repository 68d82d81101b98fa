"""ConfigMaps and Secrets."""

from __future__ import annotations

import pytest

from ..api_client import ApiClient
from ..objects import CONFIG_MAPS, config_map


@pytest.mark.parametrize(
    ("key", "code"), [("a.B-c_1", 201), ("é", 422), ("a b", 422), ("", 422), ("a\n", 422)]
)
async def test_a_key_has_letters_digits_and_three_marks_of_ascii(
    api: ApiClient, key: str, code: int
) -> None:
    assert (await api.post(CONFIG_MAPS, config_map("c", {key: "v"}))).code == code
