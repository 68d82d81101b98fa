"""Play recorded scenarios, and write our decisions in the format of the recordings.

    python -m tests.recorded FILES|- [--scheduler-version V] [--plugin module:Class] [-o OUT]

A file has a scenario per line and may be gzipped; - is standard input. So is OUT standard output.
"""

import argparse
import gzip
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from scheduler.config import DEFAULT_SCHEDULER_VERSION, VERSION_LABELS, SchedulerVersion
from scheduler.explain.questions import QuestionError
from scheduler.runtime import PluginSetupError

from .scenario import Scenario, decided, read_scenarios


def main(arguments: Iterable[str] | None = None) -> None:
    """Play the files of the command line; exit with 1 and one line for what cannot be played."""
    parser = argparse.ArgumentParser(prog="python -m tests.recorded", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("files", nargs="+", metavar="FILE|-")
    parser.add_argument(
        "--scheduler-version", choices=VERSION_LABELS, default=DEFAULT_SCHEDULER_VERSION.label
    )
    parser.add_argument("--plugin", action="append", default=[], metavar="MODULE:CLASS")
    parser.add_argument("-o", "--output", default="-", metavar="OUT")
    options = parser.parse_args(None if arguments is None else [*arguments])
    version = SchedulerVersion.parse(options.scheduler_version)
    with ExitStack() as stack:
        out = sys.stdout.buffer
        try:
            if options.output != "-":
                out = stack.enter_context(Path(options.output).open("wb"))
            for scenario in _scenarios(options.files):
                out.write(msgspec.json.encode(decided(scenario, options.plugin, version)) + b"\n")
        except OSError as error:
            sys.exit(f"tests.recorded: {error.filename}: {error.strerror}")
        except (QuestionError, PluginSetupError) as error:
            sys.exit(f"tests.recorded: {error}")
        out.flush()


def _scenarios(paths: Iterable[str]) -> Iterator[Scenario]:
    for path in paths:
        if path == "-":
            yield from read_scenarios(sys.stdin.buffer, source="standard input")
        elif path.endswith(".gz"):
            with gzip.open(path) as lines:
                yield from read_scenarios(lines, source=path)
        else:
            with Path(path).open("rb") as plain:
                yield from read_scenarios(plain, source=path)


if __name__ == "__main__":
    main()
