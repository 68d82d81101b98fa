"""The table of flags is kube-scheduler's, as recorded from it, and ours."""

from pathlib import Path

from scheduler.config import DEFAULT_SCHEDULER_VERSION
from scheduler.config.feature_gates import help_lines
from scheduler.flags.flag_set import FlagSet
from scheduler.flags.table import flags_of

FLAGS = flags_of(DEFAULT_SCHEDULER_VERSION)

RECORDED = Path(__file__).parent / "stock_flags.txt"
OURS = {
    *("check-cache-every", "plugin", "scheduler-version", "seed", "shadow", "shadow-log"),
    "tie-break",
}
#: Flags of v1.13 to v1.22.
OLD = {
    *("algorithm-provider", "policy-config-file", "policy-configmap"),
    *("policy-configmap-namespace", "use-legacy-policy-config"),
}


def _recorded() -> dict[str, tuple[str, str, str]]:
    found = {}
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, kind, shorthand, *default = line.split(" ", 3)
            found[name] = (kind, shorthand.removeprefix("-"), default[0] if default else "")
    return found


def test_names_types_and_defaults_of_all_flags_are_upstreams() -> None:
    values = FlagSet(FLAGS).parse([], command="kubesched")
    ours = {
        flag.name: (flag.type.name, flag.shorthand, values.text(flag.name))
        for flags in FLAGS.values()
        for flag in flags
        if flag.name not in OURS | OLD
    }
    assert ours == _recorded()
    assert len(ours) == 62


def test_every_flag_may_be_set_to_its_default() -> None:
    flags = FlagSet(FLAGS)
    for name, (_, _, default) in _recorded().items():
        bare = default.removeprefix("[").removesuffix("]")
        if bare:
            assert flags.parse([f"--{name}={bare}"], command="kubesched").text(name) == default


def test_the_help_has_all_flags_and_feature_gates() -> None:
    lines = [line.strip() for line in FlagSet(FLAGS).help_text().splitlines()]
    assert set(help_lines(DEFAULT_SCHEDULER_VERSION)) <= set(lines)
    assert all(any(f"--{name}" in line for line in lines) for name in _recorded())
