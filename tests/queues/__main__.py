"""Play recorded scenarios of kube-batch, and write our end states as `compare.py` reads them.

    python -m tests.queues FILES... [--improved] [-o RESULTS]

A file has a line of JSON for each scenario, or for each recorded result with its scenario, and may
be gzipped; - is standard input, and so is RESULTS standard output.
"""

import argparse
import asyncio
import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .player import Playing


def main(arguments: Iterable[str] | None = None) -> None:
    """Play the files of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.queues", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("files", nargs="+", metavar="FILE|-")
    parser.add_argument(
        "--improved", action="store_true", help="play with what kube-batch does not have"
    )
    parser.add_argument("--only", metavar="NAMES", help="a file with the names to play")
    parser.add_argument("-o", "--output", default="-", metavar="RESULTS")
    options = parser.parse_args(None if arguments is None else [*arguments])
    only = None
    if options.only:
        only = set(Path(options.only).read_text(encoding="utf-8").split())
    with ExitStack() as stack:
        out = sys.stdout
        if options.output != "-":
            out = stack.enter_context(Path(options.output).open("w", encoding="utf-8"))
        for scenario in scenarios(options.files):
            if only is None or scenario["name"] in only:
                out.write(json.dumps(result(scenario, improved=options.improved)) + "\n")


def result(scenario: dict[str, Any], *, improved: bool) -> dict[str, Any]:
    """Play one scenario."""
    summary = asyncio.run(Playing(scenario, improved=improved).summary())
    return {"name": scenario["name"], "summary": summary}


def scenarios(paths: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the scenarios of files."""
    for path in paths:
        with ExitStack() as stack:
            lines: Iterable[str] = sys.stdin
            if path.endswith(".gz"):
                lines = stack.enter_context(gzip.open(path, "rt", encoding="utf-8"))
            elif path != "-":
                lines = stack.enter_context(Path(path).open(encoding="utf-8"))
            for line in lines:
                if line.strip():
                    row = json.loads(line)
                    yield row.get("scenario", row)


if __name__ == "__main__":
    main()
