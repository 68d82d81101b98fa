"""Command lines are parsed as Go's flag library does; errors are recorded from kube-scheduler."""

import pytest

from scheduler.config import DEFAULT_SCHEDULER_VERSION
from scheduler.flags.flag_set import AUTOMATIC_PORT, FlagSet, UsageError, Values
from scheduler.flags.table import flags_of

FLAGS = flags_of(DEFAULT_SCHEDULER_VERSION)


def parse(*arguments: str) -> Values:
    return FlagSet(FLAGS).parse(arguments, command="kubesched")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--v=5",),
        ("--v", "5"),
        ("-v=5",),
        ("-v5",),
        ("-v", "5"),
        ("-v", "05"),
        ("-v=9", "-v5"),
        ("-hv5",),
    ],
)
def test_the_level_of_the_log_has_many_spellings(arguments: tuple[str, ...]) -> None:
    assert parse(*arguments).integer("v") == 5


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("--leader-elect", True),
        ("--leader_elect", True),
        ("--leader-elect=true", True),
        ("--leader-elect=T", True),
        ("--leader-elect=false", False),
        ("--leader_elect=0", False),
    ],
)
def test_a_truth_value_is_written_after_an_equals_sign(argument: str, value: bool) -> None:
    values = parse(argument)
    assert values.boolean("leader-elect") is value
    assert values.is_set("leader-elect")


@pytest.mark.parametrize(
    ("arguments", "name", "text"),
    [
        (("--requestheader-allowed-names=a,b", '--requestheader-allowed-names="c,d"'),
         "requestheader-allowed-names", '[a,b,"c,d"]'),
        (("--requestheader-group-headers=a",), "requestheader-group-headers", "[a]"),
        (("--authorization-always-allow-paths=",), "authorization-always-allow-paths", "[]"),
        (("--allow-metric-labels=a,b=c", "--allow-metric-labels=d,e=f"),
         "allow-metric-labels", '["a,b=c","d,e=f"]'),
        (('--allow-metric-labels="a,b=c,d","e,f=g"',), "allow-metric-labels",
         '["a,b=c,d","e,f=g"]'),
        (("--tls-sni-cert-key=a,b", "--tls-sni-cert-key=c,d:x,y"), "tls-sni-cert-key",
         "[a,b;c,d:x,y]"),
        (("--vmodule=a=1", "--vmodule=b=2,c=3,"), "vmodule", "a=1,b=2,c=3"),
        (("--kube-api-qps=1.3",), "kube-api-qps", "1.3"),
        (("--kube-api-qps=1e9",), "kube-api-qps", "1e+09"),
        (("--bind-address=",), "bind-address", "0.0.0.0"),
        (("--bind-address=::1",), "bind-address", "::1"),
        (("--log-flush-frequency=90s",), "log-flush-frequency", "1m30s"),
        (("--log-text-info-buffer-size=1Ki",), "log-text-info-buffer-size", "1Ki"),
        (("--secure-port=0x10",), "secure-port", "16"),
        (("--secure-port=010",), "secure-port", "8"),
        (("--secure-port=1_000",), "secure-port", "1000"),
        (("--secure-port=0x_1F",), "secure-port", "31"),
        (("--secure-port=0_17",), "secure-port", "15"),
        (("--kube-api-qps=1_0.5",), "kube-api-qps", "10.5"),
        (("--version=v1.36.3-x",), "version", "v1.36.3-x"),
        (("--version",), "version", "true"),
        (("--feature-gates=kube:WatchList=f,kube:AllAlpha=0",), "feature-gates",
         "kube:WatchList=f,kube:AllAlpha=0"),
        (("--tls-curve-preferences=29,23",), "tls-curve-preferences", "[29,23]"),
    ],
)  # fmt: skip
def test_values_are_shown_as_go_shows_them(
    arguments: tuple[str, ...], name: str, text: str
) -> None:
    assert parse(*arguments).text(name) == text


def test_a_free_port_may_be_taken() -> None:
    assert parse("--secure-port=auto").integer("secure-port") == AUTOMATIC_PORT
    assert parse("--secure-port=auto").text("secure-port") == "auto"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--leader-elect", "false"),
         '"kubesched" does not take any arguments, got ["false"]'),
        (("--", "a"), '"kubesched" does not take any arguments, got ["a"]'),
        (("--foo",), "unknown flag: --foo"),
        (("-z",), "unknown shorthand flag: 'z' in -z"),
        (("-xv",), "unknown shorthand flag: 'x' in -xv"),
        (("--=x",), "bad flag syntax: --=x"),
        (("--secure-port",), "flag needs an argument: --secure-port"),
        (("-v",), "flag needs an argument: 'v' in -v"),
        (("--secure-port", "x"), 'invalid argument "x" for "--secure-port" flag: '
         'strconv.ParseInt: parsing "x": invalid syntax'),
        (("--v=5x",), 'invalid argument "5x" for "-v, --v" flag: '
         'strconv.ParseUint: parsing "5x": invalid syntax'),
        (("-v=x",), 'invalid argument "x" for "-v, --v" flag: '
         'strconv.ParseUint: parsing "x": invalid syntax'),
        (("-vx",), 'invalid argument "x" for "-v, --v" flag: '
         'strconv.ParseUint: parsing "x": invalid syntax'),
        (("--leader-elect=maybe",), 'invalid argument "maybe" for "--leader-elect" flag: '
         'strconv.ParseBool: parsing "maybe": invalid syntax'),
        (("--vmodule=foo",), 'invalid argument "foo" for "--vmodule" flag: '
         '"foo" does not have the pattern=N format'),
        (("--vmodule=foo=x",), 'invalid argument "foo=x" for "--vmodule" flag: parsing verbosity '
         'in "foo=x": strconv.ParseUint: parsing "x": invalid syntax'),
        (("--log-json-info-buffer-size=1x",), 'invalid argument "1x" for '
         '"--log-json-info-buffer-size" flag: quantities must match the regular expression '
         "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        (("--version=foo",), 'invalid argument "foo" for "--version" flag: '
         'strconv.ParseBool: parsing "foo": invalid syntax'),
        (("--log-flush-frequency=x",), 'invalid argument "x" for "--log-flush-frequency" flag: '
         'time: invalid duration "x"'),
        (("--kube-api-burst=1.5",), 'invalid argument "1.5" for "--kube-api-burst" flag: '
         'strconv.ParseInt: parsing "1.5": invalid syntax'),
        (("--kube-api-burst=99999999999",), 'invalid argument "99999999999" for '
         '"--kube-api-burst" flag: strconv.ParseInt: parsing "99999999999": value out of range'),
        (("--kube-api-qps=-1e999",), 'invalid argument "-1e999" for "--kube-api-qps" flag: '
         'strconv.ParseFloat: parsing "-1e999": value out of range'),
        (("--kube-api-qps=x",), 'invalid argument "x" for "--kube-api-qps" flag: '
         'strconv.ParseFloat: parsing "x": invalid syntax'),
        (("--kube-api-qps= 1 ",), 'invalid argument " 1 " for "--kube-api-qps" flag: '
         'strconv.ParseFloat: parsing " 1 ": invalid syntax'),
        (("--secure-port=1__0",), 'invalid argument "1__0" for "--secure-port" flag: '
         'strconv.ParseInt: parsing "1__0": invalid syntax'),
        (("--tls-curve-preferences=x",), 'invalid argument "x" for "--tls-curve-preferences" '
         'flag: strconv.ParseInt: parsing "x": invalid syntax'),
        (("--tls-sni-cert-key=a",), 'invalid argument "a" for "--tls-sni-cert-key" flag: '
         "expected comma separated certificate and key file paths"),
        (("--bind-address=x",), 'invalid argument "x" for "--bind-address" flag: '
         'failed to parse IP: "x"'),
        (("--help=x",), 'invalid argument "x" for "-h, --help" flag: '
         'strconv.ParseBool: parsing "x": invalid syntax'),
        (("--allow-metric-labels=x",), 'invalid argument "x" for "--allow-metric-labels" flag: '
         "x must be formatted as key=value"),
        (("--allow-metric-labels=a=b,c,d=e",), 'invalid argument "a=b,c,d=e" for '
         '"--allow-metric-labels" flag: c must be formatted as key=value'),
        (('--requestheader-allowed-names="a',), 'invalid argument "\\"a" for '
         '"--requestheader-allowed-names" flag: parse error on line 1, column 3: extraneous or '
         'missing " in quoted-field'),
    ],
)  # fmt: skip
def test_invalid_command_lines_have_upstreams_errors(
    arguments: tuple[str, ...], error: str
) -> None:
    with pytest.raises(UsageError) as raised:
        parse(*arguments)
    assert str(raised.value) == error
