import json
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.config.document import parse_document
from scheduler.config.types import ConfigError
from scheduler.explain.yaml_reader import YamlError, read_yaml

TABLE = Path(__file__).with_name("go_yaml.tsv").read_text(encoding="utf-8").splitlines()[1:]
ROWS = [tuple(row.split("\t")) for row in TABLE]
#: Integers of JSON; other numbers are read as floats.
INTEGERS = range(-(2**63), 2**64)


def read_configuration(text: str) -> object:
    return parse_document(text).value


def read_manifest(text: str) -> object:
    (value,) = read_yaml(text.encode())
    return value


READERS = pytest.mark.parametrize("read", [read_configuration, read_manifest])


def as_read(number: str) -> int | float:
    """The value of an integer in Go's JSON."""
    return int(number) if int(number) in INTEGERS else float(number)


def is_refused(json_text: str) -> bool:
    return json_text.startswith("error ")


@READERS
@pytest.mark.parametrize(("text", "expected"), [row for row in ROWS if not is_refused(row[1])])
def test_a_scalar_has_the_value_that_kubernetes_reads(
    read: Callable[[str], object], text: str, expected: str
) -> None:
    assert json.dumps(read(text)) == json.dumps(json.loads(expected, parse_int=as_read))


@READERS
@pytest.mark.parametrize("text", [text for text, expected in ROWS if is_refused(expected)])
def test_a_scalar_that_kubernetes_refuses_is_refused(
    read: Callable[[str], object], text: str
) -> None:
    with pytest.raises((ConfigError, YamlError), match="line 1"):
        read(text)


@READERS
def test_the_error_of_a_tag_is_that_of_go_yaml(read: Callable[[str], object]) -> None:
    with pytest.raises((ConfigError, YamlError), match=r"cannot decode !!float `1\.0` as a !!int"):
        read("a: !!int 1.0")
