"""The flags of the command line that are about security."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fakeapi.decoding.bodies import BODY_BYTES_MAX
from fakeapi.security.options import MODES, Security

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["security_options"]

_R = TypeVar("_R")
_FILE = click.Path(dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option(
        "--tls",
        is_flag=True,
        help="Serve HTTPS with a certificate made on the spot; its authority, and a certificate "
        "of an administrator, are in the kubeconfig.",
    ),
    click.option(
        "--tls-cert-file",
        metavar="FILE",
        type=_FILE,
        help="Serve HTTPS with this certificate, in PEM, followed by those that signed it.",
    ),
    click.option(
        "--tls-private-key-file",
        metavar="FILE",
        type=_FILE,
        help="The key of --tls-cert-file.",
    ),
    click.option(
        "--client-ca-file",
        metavar="FILE",
        type=_FILE,
        help="Believe certificates of clients that are signed by these: the common name is the "
        "user, organizations are the groups.",
    ),
    click.option(
        "--token-auth-file",
        metavar="FILE",
        type=_FILE,
        help='Users by their bearer tokens, as CSV: token,user,uid,"group1,group2".',
    ),
    click.option(
        "--token",
        metavar="TOKEN",
        default="",
        help="A bearer token of an administrator, which is in the kubeconfig. Clients of client-go "
        "send tokens over HTTPS only.",
    ),
    click.option(
        "--anonymous-auth/--no-anonymous-auth",
        default=None,
        help="Take requests from those who do not show who they are, as system:anonymous, though "
        "there are ways to; by default with RBAC only.",
    ),
    click.option(
        "--authorization-mode",
        type=click.Choice(MODES),
        default="AlwaysAllow",
        show_default=True,
        help="Who may do what: everybody everything, or what roles say.",
    ),
    click.option(
        "--max-requests-inflight",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Answer 429 beyond that many requests at once that read; 0 is no limit.",
    ),
    click.option(
        "--max-mutating-requests-inflight",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="The same for requests that write.",
    ),
    click.option(
        "--max-request-bytes",
        type=click.IntRange(min=1),
        default=BODY_BYTES_MAX,
        show_default=True,
        help="How large the body of a request may be.",
    ),
    click.option(
        "--insecure-bind-anywhere",
        is_flag=True,
        help="Listen on other addresses than loopback though nobody has to show who he is.",
    ),
)


def security_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Give a command the flags; it gets what they say as its argument `security`."""

    @functools.wraps(command)
    def wrapped(**others: Any) -> _R:
        fields = {field.name for field in dataclasses.fields(Security)}
        given = {name: others.pop(name) for name in fields & others.keys()}
        return command(security=Security(**given), **others)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped
