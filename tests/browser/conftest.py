"""The tests of pages need Selenium (the extra `browser`) and the system's Chromium.

Without Selenium they are not collected: ordinary test runs do without both.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

collect_ignore_glob = [] if importlib.util.find_spec("selenium") else ["test_*.py"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    """A headless browser; the test is skipped if there is none."""
    from tests.browser.chromium import headless

    chrome = headless()
    if chrome is None:
        pytest.skip("no browser: install Chromium and its driver (chromium, chromium-driver)")
    yield chrome
    chrome.quit()
