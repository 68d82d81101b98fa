"""The tests of pages need Selenium (the extra `browser`) and the system's Chromium.

Without Selenium they are not collected: ordinary test runs do without both.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

collect_ignore_glob = [] if importlib.util.find_spec("selenium") else ["test_*.py"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    """A headless browser; the test is skipped if there is none."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no browser: install Chromium and its driver (chromium, chromium-driver)")
    options = ChromeOptions()
    options.binary_location = binary
    # Chromium refuses its sandbox to root, and needs more shared memory than containers have.
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1400,1000")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options=options, service=Service(driver))
    yield chrome
    chrome.quit()
