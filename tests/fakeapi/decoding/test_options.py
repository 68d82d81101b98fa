"""Options of writes: their validation."""

from __future__ import annotations

import pytest

from fakeapi.decoding.options import Query, write_options
from fakeapi.types.errors import Invalid


def test_a_manager_that_is_too_long_is_not_repeated_for_each_of_its_letters() -> None:
    with pytest.raises(Invalid) as caught:
        write_options(Query({"fieldManager": ["\0" * 129]}), "PatchOptions")
    assert caught.value.message.endswith("fieldManager: Too long: may not be more than 128 bytes")
