"""A configuration value as upstream's error messages show it.

Upstream validates its internal types, which carry no wire names: a bad value that is a struct or a
list of them is printed with Go's field names, every field written out, an absent list as null.
"""

from __future__ import annotations

import msgspec

from scheduler.config.duration import Duration
from scheduler.config.types import ConfigStruct


def internal_form(value: object) -> object:
    """The JSON value to put into a message for `value`, a struct, a tuple of them, or JSON."""
    if isinstance(value, Duration):
        return str(value)
    if isinstance(value, ConfigStruct):
        return {
            _go_name(field.name): _field_form(getattr(value, field.name), field.default)
            for field in msgspec.structs.fields(value)
        }
    if isinstance(value, tuple):
        return [internal_form(item) for item in value]
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    return value


def _field_form(value: object, default: object) -> object:
    """A list that is empty because nobody set it is Go's nil."""
    return None if value == () and default == () else internal_form(value)


def _go_name(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))
