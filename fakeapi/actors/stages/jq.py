"""Queries in jq, evaluated by the package `jq` of the extra `kubesched[kwok]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fakeapi.types.objects import Json


class JqError(ValueError):
    """A query that is not jq, or that fails for an object; or the package is missing."""


class _Results(Protocol):
    def all(self) -> list[object]: ...


class _Program(Protocol):
    def input_value(self, value: object) -> _Results: ...


class Query:
    """A compiled query; calling it with an object returns its results. Raises JqError."""

    def __init__(self, text: str) -> None:
        try:
            import jq
        except ImportError as error:
            why = "jq is evaluated by the package jq: pip install 'kubesched[kwok]'"
            raise JqError(why) from error
        try:
            self._program: _Program = jq.compile(text)
        except ValueError as error:
            raise JqError(" ".join(str(error).split())) from error

    def __call__(self, obj: Json) -> list[object]:
        try:
            return self._program.input_value(obj).all()
        except ValueError as error:
            raise JqError(str(error)) from error
