"""The door of the scheduler package: cheap to import, and complete."""

import subprocess
import sys

import pytest

import scheduler
from scheduler import framework


def test_the_import_of_the_package_imports_nothing_else() -> None:
    code = (
        "import sys, scheduler; "
        "print([m for m in sys.modules if m.startswith(('scheduler.', 'numpy', 'msgspec'))])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert found.stdout == "[]\n"


def test_the_import_of_a_submodule_does_not_import_the_framework() -> None:
    code = "import sys; from scheduler import clock; print('scheduler.framework' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert found.stdout == "False\n"


def test_the_names_are_those_of_the_framework() -> None:
    assert sorted(scheduler.__all__) == sorted([*framework.__all__, "run"])
    assert all(getattr(scheduler, name) is not None for name in scheduler.__all__)
    assert set(scheduler.__all__) <= set(dir(scheduler))
    assert not hasattr(scheduler, "__wrapped__")
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        scheduler.Nothing  # noqa: B018
