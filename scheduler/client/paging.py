"""Long lists in pages.

A list is asked for in pages, so that neither side has to hold all of it as text. All pages show the
state of one moment; if the server forgets that moment half way, the whole list is asked for once
more in one piece. Source: client-go `tools/pager/pager.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from scheduler.client.errors import Expired
from scheduler.client.resources import ApiObject, ListOptions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scheduler.client.decoding import Page

T = TypeVar("T", bound=ApiObject)


@dataclass(frozen=True)
class Listing(Generic[T]):
    """A whole list as of `resource_version`; `paginated` if it took more than one page."""

    items: list[T]
    resource_version: str
    paginated: bool = False


async def list_in_pages(
    fetch: Callable[[ListOptions], Awaitable[Page[T]]], options: ListOptions, *, page_size: int
) -> Listing[T]:
    """All pages of a list; `page_size` 0 asks for one page without a limit.

    Raises what `fetch` raises, but for an `Expired` after the first page, which makes it fetch the
    whole list again without a limit.
    """
    asked = replace(options, limit=options.limit or page_size)
    items: list[T] = []
    resource_version = ""
    while True:
        try:
            page = await fetch(asked)
        except Expired:
            if not asked.continue_token:
                raise
            whole = await fetch(replace(options, limit=0))
            return Listing(whole.items, whole.metadata.resource_version, paginated=True)
        # The first page's version is the list's: the others show the same moment.
        resource_version = resource_version or page.metadata.resource_version
        paginated = bool(asked.continue_token)
        items.extend(page.items)
        if not page.metadata.continue_token:
            return Listing(items, resource_version, paginated=paginated)
        # A continued list must not name a resource version: the token does.
        asked = replace(
            asked,
            continue_token=page.metadata.continue_token,
            resource_version="",
            resource_version_match="",
        )
