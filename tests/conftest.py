"""Settings of all tests."""

from __future__ import annotations

from tests.thoroughness import load_hypothesis_profile

load_hypothesis_profile()
