"""The flags of the command line that are about admission, as kube-apiserver spells them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fakeapi.admission.selection import KNOWN, OFF, AdmissionError, Selection

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["admission_options"]

_R = TypeVar("_R")
_KNOWN = ", ".join(plugin.name for plugin in KNOWN)
_ON = ", ".join(plugin.name for plugin in KNOWN if plugin.name not in OFF)
_OPTIONS = (
    click.option(
        "--enable-admission-plugins",
        metavar="NAMES",
        multiple=True,
        help="Plugins to run in addition to those that are on by default, with commas between "
        f"them. Known are {_KNOWN}; on by default are {_ON}.",
    ),
    click.option(
        "--disable-admission-plugins",
        metavar="NAMES",
        multiple=True,
        help="Plugins not to run although they are on by default; those of kube-apiserver that "
        "are not part of this server may be named, too.",
    ),
    click.option(
        "--admission-plugins",
        metavar="NAMES",
        multiple=True,
        help="Exactly the plugins to run; an empty text for none at all.",
    ),
)


def admission_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Give a command the flags; it gets what they say as its argument `admission`."""

    @functools.wraps(command)
    def wrapped(
        *,
        admission_plugins: tuple[str, ...],
        enable_admission_plugins: tuple[str, ...],
        disable_admission_plugins: tuple[str, ...],
        **others: Any,
    ) -> _R:
        whole = ",".join(admission_plugins) if admission_plugins else None
        enable, disable = ",".join(enable_admission_plugins), ",".join(disable_admission_plugins)
        try:
            selection = Selection.of(whole, enable, disable)
        except AdmissionError as error:
            raise click.UsageError(f"--{error}") from error
        return command(admission=selection, **others)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped
