"""Our end states against those of kube-batch v0.5.0, recorded by its own actions and plugins.

`plain.jsonl.gz` has the scenarios whose outcome depends neither on ties nor on most of kube-batch's
oddities. Pods bound, evictions and ready jobs must agree, or the oddity that explains the
difference is named here.
"""

import gzip
import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.thoroughness import IS_THOROUGH

from .__main__ import result

_FILE = Path(__file__).with_name("plain.jsonl.gz")

#: CI plays one scenario of so many.
_STEP: Final = 1 if IS_THOROUGH else 9


def _recorded() -> list[dict[str, Any]]:
    with gzip.open(_FILE, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _compared(summary: dict[str, Any]) -> dict[str, Any]:
    return {
        "bound": {queue: n for queue, n in summary["bound"].items() if n},
        "evicted": {queue: n for queue, n in summary["evicted"].items() if n},
        "ready": {key: job["ready"] for key, job in summary["jobs"].items()},
    }


_ROWS = _recorded()
#: The scenarios that differ, with the oddity of kube-batch that is the reason.
EXPLAINED: Final[dict[str, str]] = json.loads(
    _FILE.with_name("differences.json").read_text(encoding="utf-8")
)


def test_at_least_95_percent_agree() -> None:
    assert len(EXPLAINED) <= len(_ROWS) * 0.05
    assert EXPLAINED.keys() <= {row["scenario"]["name"] for row in _ROWS}


@pytest.mark.parametrize("row", _ROWS[::_STEP], ids=lambda row: row["scenario"]["name"])
def test_the_end_state_is_kube_batchs(row: dict[str, Any]) -> None:
    summary = result(row["scenario"], improved=False)["summary"]
    agrees = _compared(summary) == _compared(row["summary"])
    assert agrees == (row["scenario"]["name"] not in EXPLAINED)
