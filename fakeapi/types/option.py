"""A field of a dataclass that is an option of the command line too.

    timeout_seconds: float = option(60.0, "Give up after this time.", above=0, metavar="SECONDS")

`fakeapi/cli/options.py` makes the option from the field; nothing else has to be written.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
_KEY: Final = "option"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A field as the command line presents it."""

    help: str
    #: "" for the name of the field, with dashes.
    flag: str = ""
    metavar: str | None = None
    #: Type of the value, of each one of several.
    type: type
    #: A field of several values is an option that may be repeated.
    repeated: bool = False
    minimum: int | None = None
    maximum: int | None = None
    #: The value has to be greater.
    above: int | None = None
    choices: tuple[str, ...] = ()
    #: Makes the value from the text of the command line; raises ValueError.
    parse: Callable[[str], object] | None = None
    #: A file that is written, never one that another option names.
    written: bool = False

    def flag_of(self, name: str) -> str:
        """Return the flag of a field."""
        return self.flag or f"--{name.replace('_', '-')}"

    def complaint(self, value: object) -> str:
        """Return the expected values instead of this value, "" if the value is allowed."""
        if self.choices and value not in self.choices:
            return f"expected one of {', '.join(self.choices)}"
        if not isinstance(value, int | float):
            return ""
        if self.minimum is not None and value < self.minimum:
            return f"expected {self.minimum} or more"
        if self.maximum is not None and value > self.maximum:
            return f"expected {self.maximum} or less"
        if self.above is not None and value <= self.above:
            return f"expected more than {self.above}"
        return ""


def option(default: _T, help: str, *, type: type | None = None, **more: Any) -> _T:
    """Return a field with this default; its type is the default's unless it is given.

    `more` are fields of Option.
    """
    kind = type or (str if default is None or default == () else default.__class__)
    presented = Option(help=help, type=kind, **{"repeated": default == (), **more})
    return dataclasses.field(default=default, metadata={_KEY: presented})


def file_option(help: str, *, written: bool = False, **more: Any) -> Path | None:
    """Return a field that is the path of a file, None by default."""
    return option(None, help, type=Path, **{"metavar": "FILE", "written": written, **more})


def check_values(options: object) -> None:
    """Refuse values that the command line refuses. Raises ValueError."""
    for name, (declared, _) in options_of(type(options)).items():
        if complaint := declared.complaint(getattr(options, name)):
            raise ValueError(f"{declared.flag_of(name)}: {complaint}")


def options_of(owner: type) -> dict[str, tuple[Option, object]]:
    """Return the options of a dataclass and their defaults, by field."""
    return {
        field.name: (field.metadata[_KEY], field.default)
        for field in dataclasses.fields(owner)
        if _KEY in field.metadata
    }
