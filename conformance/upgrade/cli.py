"""The command `kubesched-conformance upgrade`.

Exit status: 0 if no decision differs and no setting stops working; 1 if one does; 2 for invalid
input.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from ..errors import InputError
from ..options import PATH, SuiteCommand, options_of, takes
from ..replay.history import read_history
from ..reports.files import check_writable
from ..reports.json_file import write_json
from ..reports.terminal import output_console
from ..targets.target import OUR_VERSIONS
from .decisions import decisions, import_openb
from .report import UpgradeReport
from .settings import Settings, refusals

if TYPE_CHECKING:
    from collections.abc import Iterator


_VERSION: Final = click.Choice(OUR_VERSIONS)
_SOURCES: Final = "--kubeconfig, --manifests, --history, --openb"

_option = options_of("Options")
_cluster = options_of("Cluster")
_settings = options_of("Settings")


class UpgradeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    base: str = _option(
        "--from", metavar="VERSION", required=True, type=_VERSION, help="The version that runs now."
    )
    version: str = _option(
        "--to", metavar="VERSION", required=True, type=_VERSION, help="The version after it."
    )
    kubeconfig: Path | None = _cluster(
        "--kubeconfig", metavar="FILE", type=PATH, help="Decide the waiting pods of a cluster."
    )
    manifests: tuple[Path, ...] = _cluster(
        "--manifests",
        metavar="FILE|-",
        type=PATH,
        help="Decide the pods without a node in a dump (`kubesched-explain --dump-command`).",
    )
    history: Path | None = _cluster(
        "--history",
        metavar="FILE",
        type=PATH,
        help="Decide the pods of a history, as of `kubesched-simulate record` or `import`.",
    )
    openb: tuple[Path, Path] | None = _cluster(
        "--openb",
        metavar="NODES PODS",
        nargs=2,
        type=PATH,
        help="Decide the pods of the openb trace: its two tables, as for "
        "`kubesched-simulate import openb`.",
    )
    limit: int | None = _cluster(
        "--limit", metavar="N", type=click.IntRange(min=1), help="Only N pods of the history."
    )
    config: Path | None = _settings(
        "--config", metavar="FILE", type=PATH, help="The KubeSchedulerConfiguration."
    )
    scheduler_command: str = _settings(
        "--scheduler-command",
        metavar="COMMAND",
        default="",
        help="The command line of the scheduler as its manifest has it, with --NAME=VALUE flags. "
        "Flags that name files of its machine are left out.",
    )
    metrics: tuple[Path, ...] = _settings(
        "--metrics",
        metavar="FILE",
        type=PATH,
        help="Rules or dashboards: the metrics of kube-scheduler that they name are looked up.",
    )
    json_file: Path | None = _option("--json", metavar="FILE", help="Write the report as JSON.")
    html_file: Path | None = _option("--html", metavar="FILE", help="Write the report as a page.")

    @property
    def versions(self) -> list[str]:
        """All versions from the first to the last. Raises InputError unless they differ."""
        if self.base == self.version:
            raise InputError(f"--to: expected another version than {self.base}")
        first, last = sorted(map(OUR_VERSIONS.index, (self.base, self.version)))
        between = [*OUR_VERSIONS[first : last + 1]]
        return between if between[0] == self.base else between[::-1]


@click.command(cls=SuiteCommand)
@takes(UpgradeOptions)
def upgrade(options: UpgradeOptions) -> None:
    """Show which pods another version would decide otherwise, and which settings it refuses."""
    versions = options.versions
    sources = (options.kubeconfig, options.manifests, options.history, options.openb)
    if sum(map(bool, sources)) > 1:
        raise InputError(f"expected one of {_SOURCES}")
    for path, name in ((options.json_file, "--json"), (options.html_file, "--html")):
        if path is not None:
            check_writable(path, option=name)
    settings = Settings.of(options.scheduler_command, options.config, options.metrics)
    if not any(sources) and settings == Settings():
        raise InputError(f"expected a cluster ({_SOURCES}) or settings")
    refused = refusals(settings, versions) if settings != Settings() else []
    pods = None
    if any(sources):
        with _cluster_arguments(options) as cluster:
            arguments = [*settings.gates, *cluster]
            pods = decisions(arguments, base=versions[0], version=versions[-1])
    report = UpgradeReport.of(versions[0], versions[-1], pods, refused)
    report.print_to(output_console())
    if options.json_file is not None:
        write_json(options.json_file, report)
    if options.html_file is not None:
        options.html_file.write_text(report.html(), encoding="utf-8")
    if not report.is_without_changes:
        raise SystemExit(1)


@contextmanager
def _cluster_arguments(options: UpgradeOptions) -> Iterator[list[str]]:
    """Yield the arguments of `kubesched-explain` for the cluster. Raises InputError."""
    config = ["--config", str(options.config)] if options.config is not None else []
    if options.kubeconfig is not None:
        yield ["--kubeconfig", str(options.kubeconfig), *config]
    elif options.manifests:
        yield [
            *(word for path in options.manifests for word in ("--manifests", str(path))),
            *config,
        ]
    else:
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            dump = Path(folder) / "history.json"
            path = options.history or Path(folder) / "openb.jsonl"
            if options.openb is not None:
                import_openb(*options.openb, path)
            history = read_history(path, limit=options.limit)
            nodes, pods = ([row.object for row in rows] for rows in (history.nodes, history.pods))
            whole = {"apiVersion": "v1", "kind": "List", "items": [*history.others, *nodes, *pods]}
            dump.write_bytes(msgspec.json.encode(whole))
            yield ["--manifests", str(dump), *config]
