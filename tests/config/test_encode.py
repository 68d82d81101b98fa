import json

import pytest

from scheduler.config import default_config, encode_config, load_text
from scheduler.config.document import parse_document
from scheduler.config.load import decode_config
from scheduler.plugins import SCHEME
from tests.config.tables import FOLDER, Case, sources, table


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("case", table("encode.yaml"))
def test_a_configuration_is_encoded_as_upstream_does(case: Case) -> None:
    encoded = encode_config(decode_config(case["config"], SCHEME), SCHEME.version)
    assert encoded == parse_document(case["want"]).value


def test_upstreams_table_is_here_but_for_one() -> None:
    # The third has fields that are not set at all, which a complete configuration has not.
    assert sources("encode.yaml") == {"TestCodecsEncodePluginConfig": 2}


def test_the_default_configuration_is_encoded_as_upstream_does() -> None:
    want = parse_document(_read("default_config.yaml")).value
    assert encode_config(default_config(SCHEME), SCHEME.version) == want


def test_texts_numbers_and_every_kind_of_field_are_encoded_as_upstream_does() -> None:
    config = load_text(_read("everything.yaml"), SCHEME)
    assert (
        encode_config(config, SCHEME.version)
        == parse_document(_read("everything_written_back.yaml")).value
    )


@pytest.mark.parametrize("name", ["default_config.yaml", "everything_written_back.yaml"])
def test_an_encoded_configuration_reads_back_the_same(name: str) -> None:
    config = load_text(_read(name), SCHEME)
    assert load_text(json.dumps(encode_config(config, SCHEME.version)), SCHEME) == config
