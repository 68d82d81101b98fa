"""The command `hunt`: from finds to findings, with a search and a confirmation as scripted."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from conformance.hunt import cli
from conformance.hunt.confirm import Finding, Order
from conformance.hunt.search import WAKES, Explored, Find, Task
from conformance.hunt.world import Pair, World
from conformance.targets.target import TargetOptions

FULL, TAINT = Pair("full", "pod goes"), Pair("taint", "taint goes")


def find_of(pair: Pair, *variations: str) -> Find:
    world = World(pair=pair, variations=variations, raw={"steps": []})
    return Find(promise=WAKES, text="lost", seed="1", world=world)


def confirmed(order: Order) -> bytes:
    finding = Finding(
        promise=WAKES,
        sentence="lost",
        pair=str(order.find.world.pair),
        seed="1",
        variations=(),
        objects=1,
        case=order.path,
        confirmed=True,
        kind="confirmed",
    )
    return msgspec.json.encode(finding)


class TickingClock:
    """A clock that goes on by a second each time it is read."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 1.0
        return self._now


def run(directory: Path, *options: str) -> Result:
    arguments = ["--budget", "60", "--workers", "0", "-o", str(directory), *options]
    return CliRunner().invoke(cli.hunt, arguments)


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """The tasks of a search that finds three lost wake-ups of two pairs each time."""
    done: list[Task] = []

    def explore(task: bytes) -> bytes:
        done.append(msgspec.json.decode(task, type=Task))
        finds = [find_of(FULL, "late", "twice"), find_of(FULL), find_of(TAINT, "late")]
        counts = {str(FULL): {"lost": 1, "woken": 2}}
        return msgspec.json.encode(Explored(counts=counts, finds=finds, errors=["one died"]))

    monkeypatch.setattr(cli, "explore", explore)
    monkeypatch.setattr(cli, "RealClock", TickingClock)
    monkeypatch.setattr(cli, "_CONFIRMERS", 0)  # this process
    return done


def test_the_simplest_find_of_each_pair_is_confirmed(
    tmp_path: Path, tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[Order] = []

    def confirm(order: bytes) -> bytes:
        given = msgspec.json.decode(order, type=Order)
        orders.append(given)
        if given.find.world.pair == TAINT:
            raise TimeoutError("too long")
        return confirmed(given)

    monkeypatch.setattr(cli, "confirm", confirm)
    result = run(tmp_path, "--also", "true --kubeconfig {kubeconfig}")
    assert result.exit_code == 1, result.output
    assert [(each.find.world.pair, each.find.world.variations) for each in orders] == [
        (FULL, ()),
        (TAINT, ("late",)),
    ]
    case = tmp_path / "no-wake-up-lost-full-pod-goes-1.yaml"
    assert orders[0].path == str(case)
    assert [*orders[0].others] == ["true --kubeconfig {kubeconfig}"]
    lines = result.output.splitlines()
    assert lines.count(f"found: {WAKES}: {FULL}: lost") == 1
    assert f"confirmed: {WAKES}: {FULL}: {case}" in lines
    assert "1 findings confirmed, 0 listed apart" in lines[-1]
    (finding,) = msgspec.json.decode((tmp_path / "findings.json").read_bytes())
    assert finding["pair"] == str(FULL)
    coverage = msgspec.json.decode((tmp_path / "coverage.json").read_bytes())
    assert {*coverage["errors"]} == {"one died", "confirming: TimeoutError: too long"}
    # Each table has its turn, and its worlds go on where they ended.
    assert [(task.table, task.start) for task in tasks[:3]] == [(0, 0), (1, 0), (0, 200)]


def test_what_was_confirmed_is_kept_if_the_run_is_ended(
    tmp_path: Path, tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    def confirm(order: bytes) -> bytes:
        return confirmed(msgspec.json.decode(order, type=Order))

    def echo(text: str, *, err: bool = False) -> None:
        if text.startswith("confirmed:"):
            raise KeyboardInterrupt

    monkeypatch.setattr(cli, "confirm", confirm)
    monkeypatch.setattr(cli.click, "echo", echo)
    run(tmp_path, "--also", "true --kubeconfig {kubeconfig}")
    (finding,) = msgspec.json.decode((tmp_path / "findings.json").read_bytes())
    assert finding["kind"] == "confirmed"


def test_another_scheduler_is_searched_after_ours(
    tmp_path: Path, tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    def confirm(_: bytes) -> bytes:
        raise TimeoutError

    monkeypatch.setattr(cli, "confirm", confirm)
    command = "true --kubeconfig {kubeconfig}"
    result = run(tmp_path, "--target-command", command)
    assert result.exit_code == 0, result.output
    assert tasks[0].target == TargetOptions()
    assert tasks[-1].target.command == command


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kubeconfig", "/dev/null"], "--kubeconfig: hunt needs an API server of its own"),
        (["-o", "/dev/null/findings"], "--output: /dev/null/findings: Not a directory"),
    ],
)
def test_invalid_input(options: list[str], message: str, tmp_path: Path) -> None:
    result = run(tmp_path, *options)
    assert result.exit_code == 2
    assert message in result.output
