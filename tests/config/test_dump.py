from __future__ import annotations

import json

import pytest

from scheduler.config import default_config, dump_config, encode_config, load_text
from scheduler.config.load import decode_config
from tests.config.tables import FOLDER, Case, sources, table


@pytest.mark.parametrize("case", table("encode.yaml"))
def test_a_configuration_is_written_back_as_upstream_does(case: Case) -> None:
    assert dump_config(decode_config(case["config"])) == case["want"]


def test_upstreams_table_is_here_but_for_one() -> None:
    # The third has fields that are not set at all, which a complete configuration has not.
    assert sources("encode.yaml") == {"TestCodecsEncodePluginConfig": 2}


def test_the_default_configuration_is_written_to_the_letter() -> None:
    assert dump_config(default_config()) == (FOLDER / "default_config.yaml").read_text(
        encoding="utf-8"
    )


def test_texts_numbers_and_every_kind_of_field_are_written_to_the_letter() -> None:
    config = load_text((FOLDER / "everything.yaml").read_text(encoding="utf-8"))
    assert dump_config(config) == (FOLDER / "everything_written_back.yaml").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("name", ["default_config.yaml", "everything_written_back.yaml"])
def test_what_was_written_reads_back_the_same(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert dump_config(load_text(text)).replace("weight: 0", "") == text.replace("weight: 0", "")


def test_a_configuration_is_also_a_json_object() -> None:
    encoded = encode_config(default_config())
    assert (encoded["apiVersion"], encoded["kind"]) == (
        "kubescheduler.config.k8s.io/v1",
        "KubeSchedulerConfiguration",
    )
    assert load_text(json.dumps(encoded)) == default_config()
