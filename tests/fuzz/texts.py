"""Texts and objects that requests are made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.fakeapi import custom_resources

_FOLDER: Final = Path(__file__).parent
#: Lists of texts, by their use.
TEXTS: Final[dict[str, Any]] = json.loads((_FOLDER / "texts.json").read_text(encoding="utf-8"))
#: A valid object of each important kind, but for its metadata.
SEEDS: Final[dict[str, dict[str, Any]]] = {
    **json.loads((_FOLDER / "seeds.json").read_text(encoding="utf-8")),
    "CustomResourceDefinition": custom_resources.definition(),
}
