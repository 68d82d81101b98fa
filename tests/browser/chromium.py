"""The system's Chromium without a window."""

from __future__ import annotations

import shutil

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def headless() -> Chrome | None:
    """Return a headless browser; None if there is none, or no driver."""
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        return None
    options = ChromeOptions()
    options.binary_location = binary
    # Chromium refuses its sandbox to root, and needs more shared memory than containers have.
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--hide-scrollbars")
    options.add_argument("--window-size=1400,1000")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return Chrome(options=options, service=Service(driver))


def resize(browser: Chrome, *, width: int, height: int = 1000) -> None:
    """Set the size of the page itself, which may be smaller than any window."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def prefer(browser: Chrome, *schemes: str) -> None:
    """Set the colours that a person prefers, `light` or `dark`; none is the browser's own."""
    features = [{"name": "prefers-color-scheme", "value": scheme} for scheme in schemes]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
