"""Lists in pages, and what happens when the server forgets half way."""

from collections import deque

import pytest

from scheduler.api.core import Pod
from scheduler.client.decoding import Page
from scheduler.client.errors import Expired
from scheduler.client.kinds import ListOptions
from scheduler.client.objects import ListMeta
from scheduler.client.rest import list_in_pages
from tests.client.objects import pod

GONE = Expired(410, "Expired", "too old")


def page(version: str, *names: str, continue_token: str = "") -> Page[Pod]:
    metadata = ListMeta(resource_version=version, continue_token=continue_token)
    return Page("PodList", metadata, [pod(name) for name in names])


class Pages:
    """Returns pages in order, and records the requests."""

    def __init__(self, *answers: Page[Pod] | Exception) -> None:
        self.answers = deque(answers)
        self.asked: list[ListOptions] = []

    async def __call__(self, options: ListOptions) -> Page[Pod]:
        self.asked.append(options)
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_pages_are_put_together_under_the_first_ones_version() -> None:
    pages = Pages(page("7", "a", continue_token="1"), page("", "b", continue_token="2"), page("7"))
    asked = ListOptions(resource_version="0", label_selector="x")
    listing = await list_in_pages(pages, asked, page_size=1)

    assert [item.metadata.name for item in listing.items] == ["a", "b"]
    assert (listing.resource_version, listing.paginated) == ("7", True)
    assert pages.asked == [
        ListOptions(resource_version="0", label_selector="x", limit=1),
        ListOptions(continue_token="1", label_selector="x", limit=1),
        ListOptions(continue_token="2", label_selector="x", limit=1),
    ]


async def test_one_page_is_not_paginated() -> None:
    listing = await list_in_pages(Pages(page("7", "a")), ListOptions(), page_size=500)

    assert not listing.paginated


async def test_a_snapshot_forgotten_half_way_is_fetched_whole() -> None:
    pages = Pages(page("7", "a", continue_token="1"), GONE, page("9", "a", "b"))
    listing = await list_in_pages(pages, ListOptions(resource_version="5"), page_size=1)

    assert [item.metadata.name for item in listing.items] == ["a", "b"]
    assert (listing.resource_version, listing.paginated) == ("9", True)
    assert pages.asked[-1] == ListOptions(resource_version="5")


async def test_a_version_forgotten_from_the_start_is_the_callers_problem() -> None:
    with pytest.raises(Expired):
        await list_in_pages(Pages(GONE), ListOptions(resource_version="5"), page_size=1)
