"""Options of the command line are fields of dataclasses."""

import dataclasses
import re
from importlib import resources
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from fakeapi import FakeApiServer, Security, ServerOptions
from fakeapi.cli.options import click_options, files_of, values_of
from fakeapi.faults import FaultOptions
from fakeapi.types.limits import Limits
from fakeapi.types.option import check_values, file_option, option


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Toaster:
    """Options of a toaster."""

    slices: int = option(2, "Slices at once.", minimum=1, maximum=4)
    pause_seconds: float = option(0.5, "Time between slices.", flag="--pause", above=0)
    crumbs: bool = option(True, "Leave crumbs.")
    loud: bool = option(False, "Ring at the end.")
    butter: bool | None = option(None, "Spread butter; by default on Sundays.", type=bool)
    bread: tuple[str, ...] = option((), "Kinds of bread.")
    mode: str = option("gentle", "How to toast.", choices=("gentle", "black"))
    recipe: Path | None = file_option("Read this recipe.")
    log: Path | None = file_option("Write what was toasted.", flag="--toast-log", written=True)
    words: tuple[str, ...] = option((), "What to say.", repeated=False, parse=lambda t: (t, t))
    #: No option.
    color: str = "red"


GROUPS = {"toaster": Toaster}


def parsed(*arguments: str) -> Toaster:
    made = click.Command("toast", params=click_options(GROUPS), callback=dict)
    given = made.main(list(arguments), standalone_mode=False)
    toaster = values_of(GROUPS, given)["toaster"]
    assert isinstance(toaster, Toaster)
    return toaster


def test_an_option_that_is_not_given_has_the_default_of_its_field() -> None:
    assert parsed() == Toaster()


def test_each_kind_of_option_is_read() -> None:
    arguments = ["--slices", "3", "--pause", "0.25", "--no-crumbs", "--loud", "--no-butter"]
    arguments += ["--bread", "rye", "--bread", "white", "--mode", "black", "--recipe", "r"]
    arguments += ["--toast-log", "l", "--words", "ping"]
    assert parsed(*arguments) == Toaster(
        slices=3, pause_seconds=0.25, crumbs=False, loud=True, butter=False,
        bread=("rye", "white"), mode="black", recipe=Path("r"), log=Path("l"),
        words=("ping", "ping"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--slices", "5"], "5 is not in the range 1<=x<=4"),
        (["--pause", "0"], "0.0 is not in the range x>0"),
        (["--mode", "odd"], "'odd' is not one of 'gentle', 'black'"),
        (["--color", "blue"], "No such option"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(arguments: list[str], complaint: str) -> None:
    with pytest.raises(click.UsageError, match=re.escape(complaint)):
        parsed(*arguments)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"slices": 0}, "--slices: expected 1 or more"),
        ({"slices": 5}, "--slices: expected 4 or less"),
        ({"pause_seconds": 0}, "--pause: expected more than 0"),
        ({"mode": "odd"}, "--mode: expected one of gentle, black"),
    ],
)
def test_the_same_values_are_refused_in_python(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_values(Toaster(**values))


def test_a_server_refuses_options_out_of_bounds() -> None:
    with pytest.raises(ValueError, match="--event-log-size: expected 1 or more"):
        FakeApiServer(options=ServerOptions(event_log_size=0))


def test_files_are_known_by_their_flags() -> None:
    values = {"toaster": Toaster(recipe=Path("r"), log=Path("l"))}
    assert list(files_of(values, written=False)) == [("--recipe", Path("r"))]
    assert list(files_of(values, written=True)) == [("--toast-log", Path("l"))]


def test_the_help_has_the_text_and_the_default_of_a_field() -> None:
    made = click.Command("toast", params=click_options(GROUPS))
    shown = " ".join(CliRunner().invoke(made, ["--help"]).output.split())
    assert "--slices INTEGER RANGE Slices at once. [default: 2; 1<=x<=4]" in shown
    assert "--crumbs / --no-crumbs Leave crumbs. [default: crumbs]" in shown
    assert "--loud Ring at the end. --butter / --no-butter Spread butter" in shown


def test_the_page_on_security_names_each_of_its_options_and_each_limit() -> None:
    page = resources.files("fakeapi.security").joinpath("README.md").read_text(encoding="utf-8")
    limits = [
        flag
        for each in click_options({"server": ServerOptions, "faults": FaultOptions})
        for flag in each.opts
        if flag.endswith(("-bytes", "-size", "-seconds", "-timeout", "-ttl"))
    ] + [flag for each in click_options({"limits": Limits}) for flag in each.opts]
    flags = [flag for each in click_options({"it": Security}) for flag in each.opts] + limits
    assert len(limits) > 20
    assert [flag for flag in flags if f"`{flag}`" not in page] == []
