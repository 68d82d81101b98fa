"""The log has klog's formats, as recorded from kube-scheduler v1.36.3."""

import json
import logging
import os
import re
import subprocess
import sys

import pytest

from scheduler.klog import V2, JsonFormatter, TextFormatter, parse_verbosity


def record(level: int, message: str, *args: object) -> logging.LogRecord:
    made = logging.LogRecord("scheduler.a", level, "/x/cycle/one.py", 7, message, args, None)
    made.created, made.process = 1795387472.0824990, 2544
    return made


def text(level: int, message: str, *args: object) -> str:
    header, _, rest = TextFormatter().format(record(level, message, *args)).partition("] ")
    assert re.fullmatch(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.082499    2544 one\.py:7", header)
    return header[0] + " " + rest


def test_a_plain_message_stays_as_it_is() -> None:
    assert text(logging.INFO, "Serving securely on %s", "[::]:1") == "I Serving securely on [::]:1"
    assert text(logging.WARNING, "100%") == "W 100%"


def test_each_line_has_the_time_of_its_record() -> None:
    formatter, times = TextFormatter(), []
    for seconds in (5.25, 5.5, 6.000001, 5.75):
        made = record(V2, "Bound")
        made.created = 1795387470 + seconds
        times.append(formatter.format(made).split()[1][-9:])
    assert times == ["35.250000", "35.500000", "36.000001", "35.750000"]


def test_a_mapping_becomes_keys_with_values() -> None:
    values = {"pod": "ns/a", "node": 'n"', "count": 3, "share": 0.5, "ok": True, "list": ["a"]}
    assert text(V2, "Bound", values) == (
        'I "Bound" pod="ns/a" node="n\\"" count=3 share=0.5 ok=true list=["a"]'
    )


def test_the_error_of_an_error_comes_first() -> None:
    values = {"lock": "a/b", "err": ValueError("no")}
    assert text(logging.ERROR, "Failed", values) == 'E "Failed" err="no" lock="a/b"'


def test_a_value_of_several_lines_is_indented() -> None:
    assert text(V2, "Using", {"config": "a: 1\nb: 2\n"}) == (
        'I "Using" config=<\n\ta: 1\n\tb: 2\n >'
    )


def test_the_stack_of_an_exception_follows_the_line_or_is_a_key() -> None:
    made = record(logging.ERROR, "Failed")
    try:
        raise ValueError("no")
    except ValueError as error:
        made.exc_info = (ValueError, error, error.__traceback__)
    line, head, *_, last = TextFormatter().format(made).splitlines()
    assert line.endswith("] Failed")
    assert (head, last) == ("Traceback (most recent call last):", "ValueError: no")
    assert json.loads(JsonFormatter().format(made))["stacktrace"].endswith("ValueError: no")


@pytest.mark.parametrize(
    ("level", "problem"),
    [("-1", "invalid syntax"), ("²", "invalid syntax"), ("2147483648", "value out of range")],
)
def test_a_level_is_a_small_number(level: str, problem: str) -> None:
    assert parse_verbosity("2147483647") == 2**31 - 1
    with pytest.raises(ValueError, match=f'^strconv.ParseUint: parsing "{level}": {problem}$'):
        parse_verbosity(level)


def test_json_has_upstreams_keys_in_their_order() -> None:
    line = JsonFormatter().format(record(V2, "Bound", {"pod": "ns/a", "node": "n", "n": 1}))
    assert line == (
        '{"ts":1795387472082.499,"caller":"cycle/one.py:7","msg":"Bound","v":2,'
        '"pod":{"name":"a","namespace":"ns"},"node":"n","n":1}'
    )


def test_an_error_has_no_level_in_json_and_its_cause_comes_last() -> None:
    line = JsonFormatter().format(record(logging.ERROR, "No", {"err": ValueError("x"), "a": "b"}))
    assert json.loads(line) == {
        "ts": 1795387472082.499,
        "caller": "cycle/one.py:7",
        "msg": "No",
        "a": "b",
        "err": "x",
    }
    assert line.endswith('"a":"b","err":"x"}')


PROGRAM = """
import logging
from scheduler.klog import V1, V3, LogOptions, configure, set_verbosity
configure(LogOptions({options}))
log = logging.getLogger("scheduler.any")
for level in (logging.INFO, V1, V3, logging.WARNING, logging.ERROR):
    log.log(level, f"level {{level}}")
set_verbosity(3)
log.log(V3, "then 3")
"""


def _streams(options: str) -> tuple[list[str], list[str]]:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(options=options)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    found = [re.findall(r"(?:level|then) \d+", stream) for stream in (run.stdout, run.stderr)]
    return found[0], found[1]


@pytest.mark.parametrize(
    ("options", "stdout", "stderr"),
    [
        ("", [], ["level 20", "level 30", "level 40", "then 3"]),
        ("verbosity=1", [], ["level 20", "level 19", "level 30", "level 40", "then 3"]),
        ("split_stream=True", ["level 20", "then 3"], ["level 30", "level 40"]),
        ("split_stream=True, buffer_bytes=4096, format='json'",
         ["level 20", "level 30", "then 3"], ["level 40"]),
        ("module_levels=(('other', 4),)", [], ["level 20", "level 30", "level 40", "then 3"]),
        ("module_levels=(('<s*', 3),)", [],
         ["level 20", "level 19", "level 17", "level 30", "level 40", "then 3"]),
    ],
)  # fmt: skip
def test_streams_and_levels_are_chosen(options: str, stdout: list[str], stderr: list[str]) -> None:
    assert _streams(options) == (stdout, stderr)
