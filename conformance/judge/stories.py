"""Read the scheduler's own explanation of pods from its port, if the port serves explanations.

Our scheduler serves a pod's story at `/debug/pods/NAMESPACE/NAME`: attempts with verdicts and
scores, moves in the queue with events and hints, nominations, bindings. Others serve no stories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import aiohttp
import msgspec

from ..api import Json
from ..format.reading import text_in
from ..format.resources import objects
from .metrics import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ANSWER_SECONDS: Final = 5.0
#: Stories of one run that are read at most.
_STORIES_MAX: Final = 500
_METRICS: Final = "/metrics"


async def read_stories(metrics_url: str, pods: Iterable[str]) -> dict[str, Json]:
    """Return the stories of pods (`namespace/name`), without pods that have no story.

    Empty for a scheduler that serves no stories, or that refuses to show them.
    """
    root = f"{metrics_url.removesuffix(_METRICS)}/debug/pods"
    stories: dict[str, Json] = {}
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        try:
            listed = await _read(session, root)
            names = listed.get("pods") if listed is not None else None
            wanted = set(names) if isinstance(names, list) else set()
            for pod in [pod for pod in pods if pod in wanted][:_STORIES_MAX]:
                story = await _read(session, f"{root}/{pod}")
                if story is not None:
                    stories[pod] = story
        except (aiohttp.ClientError, OSError, msgspec.DecodeError):
            return stories  # a TimeoutError is an OSError
    return stories


def story_lines(story: Json) -> list[str]:
    """Return the entries of a story as lines, with the plugins' verdicts and hints below them."""
    return [line for entry in objects(story.get("entries")) for line in _entry_lines(entry)]


def _entry_lines(entry: Json) -> Iterator[str]:
    yield text_in(entry, "text")
    for verdict in objects(entry.get("verdicts")):
        reasons = verdict.get("reasons")
        texts = ", ".join(map(str, reasons)) if isinstance(reasons, list) else ""
        nodes = f"{verdict.get('nodes')} nodes"
        yield f"  {text_in(verdict, 'plugin')} on {nodes}: {text_in(verdict, 'code')}: {texts}"
    for hint in objects(entry.get("hints")):
        plugin, event = text_in(hint, "plugin"), text_in(hint, "event")
        yield f"  {plugin} on {event}: {text_in(hint, 'answer')}"


async def _read(session: aiohttp.ClientSession, url: str) -> Json | None:
    async with session.get(url, ssl=not is_loopback(url)) as response:
        if response.status != 200:
            return None
        return msgspec.json.decode(await response.read(), type=Json)
