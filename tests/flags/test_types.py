"""Flags are read as Go's flag library reads them."""

from __future__ import annotations

import click
import pytest

from scheduler.flags.types import VERBOSITY


@pytest.mark.parametrize("text", ["3", "=3"])
def test_verbosity_may_have_an_equals_sign_after_its_one_letter(text: str) -> None:
    assert VERBOSITY.convert(text, None, None) == 3


@pytest.mark.parametrize("text", ["", "=", "x", "-1", "1.5", "==1"])
def test_verbosity_is_a_number_that_is_not_below_zero(text: str) -> None:
    with pytest.raises(click.BadParameter, match="invalid syntax"):
        VERBOSITY.convert(text, None, None)
