"""An answer as a page: the cluster of `kubesched-explain`'s page, with a slider over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scheduler.pages.data import cluster_data
from scheduler.pages.html import static_page
from scheduler.simulate.text import outcomes

if TYPE_CHECKING:
    from scheduler.simulate.answers import Answer, Outcome


def answer_page(answer: Answer) -> str:
    """Return the page of an answer."""
    courses = [_course(title, outcome) for title, outcome in outcomes(answer)]
    simulation = {"summary": answer.summary, "courses": courses}
    encoded = msgspec.json.encode({"pods": [], "names": [], "simulation": simulation})
    return static_page(encoded, title=f"kubesched-simulate {answer.question}")


def _course(title: str, outcome: Outcome) -> dict[str, object]:
    return {
        "title": title,
        "cluster": cluster_data(outcome.cluster),
        "waitingBefore": outcome.waiting_before,
        "steps": outcome.steps,
        "reasons": {pod.pod: pod.reason for pod in outcome.waiting},
    }
