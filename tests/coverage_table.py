"""Print branch coverage per package and check the floors of `pyproject.toml`.

    tox -e coverage                       # measures, then runs this
    python -m tests.coverage_table        # prints the data that `coverage combine` has left

A floor is a percentage in `[tool.kubesched.coverage]`. It only rises: after a measurement that is
clearly better, raise it to the new number, rounded down.
"""

from __future__ import annotations

import json
import sys
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import coverage

ROOT = Path(__file__).parent.parent
#: Points above the floor at which raising it is suggested.
CLEARLY_BETTER = 1.0


class Covered(NamedTuple):
    """Statements and branches, in total and covered."""

    statements: int = 0
    branches: int = 0
    covered_statements: int = 0
    covered_branches: int = 0

    @property
    def percent(self) -> float:
        total = self.statements + self.branches
        covered = self.covered_statements + self.covered_branches
        return 100.0 * covered / total if total else 100.0

    def plus(self, other: Covered) -> Covered:
        return Covered(*(a + b for a, b in zip(self, other, strict=True)))


def measured() -> dict[str, Covered]:
    """Return the coverage of each source file, from the combined data file."""
    data = coverage.Coverage()
    data.load()
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "coverage.json"
        data.json_report(outfile=str(report))
        files = json.loads(report.read_text(encoding="utf-8"))["files"]
    return {
        path: Covered(
            summary["num_statements"],
            summary["num_branches"],
            summary["covered_lines"],
            summary["covered_branches"],
        )
        for path, summary in ((path, entry["summary"]) for path, entry in files.items())
    }


def by_package(files: dict[str, Covered]) -> dict[str, Covered]:
    """Return the sums per package and per folder or file directly below it."""
    sums: defaultdict[str, Covered] = defaultdict(Covered)
    for path, covered in files.items():
        parts = Path(path).parts
        starts = [n for n, part in enumerate(parts) if part in floors()]
        if not starts:  # a script of a test, which is called scheduler.py
            continue
        start = starts[-1]
        package = parts[start]
        room = f"{package}/{parts[start + 1]}" if len(parts) > start + 2 else f"{package}/*.py"
        for name in (package, room):
            sums[name] = sums[name].plus(covered)
    return dict(sorted(sums.items()))


def floors() -> dict[str, float]:
    """Return the floor of each package, in percent."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: dict[str, float] = project["tool"]["kubesched"]["coverage"]
    return found


def main() -> None:
    """Print the table; exit with 1 if a package is below its floor."""
    sums = by_package(measured())
    lines = [f"{'':28} {'statements':>10} {'branches':>9} {'covered':>8}"]
    problems = []
    for name, covered in sums.items():
        line = f"{name:28} {covered.statements:10} {covered.branches:9} {covered.percent:7.1f}%"
        floor = floors().get(name)
        if floor is not None:
            line += f"   floor {floor}%"
            if covered.percent < floor:
                problems.append(f"{name}: {covered.percent:.1f}% is below the floor of {floor}%")
            elif covered.percent > floor + CLEARLY_BETTER:
                line += ", can be raised"
        lines.append(line)
    sys.stdout.write("\n".join(lines) + "\n")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
