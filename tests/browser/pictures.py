"""Draw the pictures of the documentation: `python -m tests.browser.pictures`.

Both pages show the same small cluster: the answers of `kubesched-explain -o html`, and the live
page of a scheduler.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner
from selenium.webdriver.support.wait import WebDriverWait

from fakeapi import FakeApiServer
from scheduler.clock import SystemClock
from scheduler.explain.cli import main
from scheduler.testing.in_process import run_in_process
from tests.browser.chromium import headless, prefer, resize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome

PICTURES = Path(__file__).parent.parent.parent / "docs" / "pictures"
SELECTED = "web/shop-1"


def _nodes() -> Iterator[dict[str, Any]]:
    for number in range(15):
        is_batch = number >= 12
        taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
        zone = f"eu-{'abc'[number % 3]}"
        disk = {"disk": "ssd" if number % 2 else "hdd"}
        pool = {"pool": "batch"} if is_batch else {}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"node-{number:02}",
                "labels": {"topology.kubernetes.io/zone": zone, **disk, **pool},
            },
            "spec": {"taints": [taint]} if is_batch else {},
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
        }


def _pod(name: str, cpu: str, memory: str, **spec: object) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "image": "app", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "web"},
        "spec": {"containers": [container], **spec},
    }


def _pods() -> Iterator[dict[str, Any]]:
    for number in range(24):
        cpu, memory = ("1500m", "3Gi") if number % 4 else ("3", "2Gi")
        yield _pod(f"runs-{number:02}", cpu, memory, nodeName=f"node-{number * 7 % 12:02}")
    for number in range(3):
        yield _pod(f"batch-{number}", "1", "1Gi", nodeSelector={"pool": "batch"})
        yield _pod(f"shop-{number}", "1", "1Gi")
    for number in range(2):
        yield _pod(f"typo-{number}", "1", "1Gi", nodeSelector={"disk": "nvme"})
    yield _pod("huge", "12", "1Gi")


def _draw(browser: Chrome, name: str) -> None:
    def is_drawn(chrome: Chrome) -> bool:
        waiting = chrome.find_elements("css selector", "#pod-list .moved")
        return not waiting and bool(chrome.find_elements("css selector", "#node-table tr.chosen"))

    WebDriverWait(browser, 20).until(is_drawn)
    for scheme in ("light", "dark"):
        prefer(browser, scheme)
        browser.save_screenshot(str(PICTURES / f"{name}-{scheme}.png"))


def _draw_answers(browser: Chrome, manifests: Path) -> None:
    result = CliRunner().invoke(main, ["--manifests", str(manifests), "-o", "html"])
    page = manifests.with_name("page.html")
    page.write_text(result.stdout, encoding="utf-8")
    browser.get(f"{page.as_uri()}#{SELECTED}")
    _draw(browser, "explain")


async def _draw_live(browser: Chrome, manifests: Path) -> None:
    async with FakeApiServer(load=[manifests]) as server:
        kubeconfig = server.write_kubeconfig(manifests.with_name("kubeconfig"))
        running = run_in_process(kubeconfig=kubeconfig, clock=SystemClock(), serve=True)
        async with running as scheduler:
            await asyncio.to_thread(browser.get, f"{scheduler.url}/debug/ui#{SELECTED}")
            await asyncio.to_thread(_draw, browser, "live")


def _all() -> None:
    browser = headless()
    if browser is None:
        raise SystemExit("no browser: install Chromium and its driver (chromium, chromium-driver)")
    PICTURES.mkdir(exist_ok=True)
    resize(browser, width=1280, height=860)
    with tempfile.TemporaryDirectory() as directory:
        manifests = Path(directory) / "cluster.json"
        objects = [*_nodes(), *_pods()]
        objects.insert(0, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}})
        content = {"apiVersion": "v1", "kind": "List", "items": objects}
        manifests.write_text(json.dumps(content), encoding="utf-8")
        _draw_answers(browser, manifests)
        asyncio.run(_draw_live(browser, manifests))
    browser.quit()


if __name__ == "__main__":
    _all()
