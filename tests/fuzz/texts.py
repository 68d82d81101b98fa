"""Texts that requests are made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

#: Lists of texts, by their use.
TEXTS: Final[dict[str, Any]] = json.loads(
    Path(__file__).with_name("texts.json").read_text(encoding="utf-8")
)
