"""A configuration with a mistake gets kube-scheduler's error, as recorded in `bad_configs.yaml`."""

import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from scheduler.config import ConfigError, load_text
from scheduler.plugins import SCHEME

CASES: Final = yaml.safe_load(
    (Path(__file__).parent / "bad_configs.yaml").read_text(encoding="utf-8")
)

#: Errors of ours that differ: they name the field, the path of a duplicate or the column, and take
#: one line.
OURS: Final = {
    "args_dup": 'strict decoding error: duplicate field "profiles[0].pluginConfig[0].args.'
    'hardPodAffinityWeight"',
    "b64": "extenders[0].tlsConfig.caData: must be base64-encoded data",
    "comment": "Object 'Kind' is missing in '# nothing'",
    "dup": 'strict decoding error: duplicate field "parallelism"',
    "dup_unknown": 'strict decoding error: duplicate field "parallelism", unknown field "foo"',
    "dur_bad": 'leaderElection.leaseDuration: time: unknown unit "x" in duration "15x"',
    "dur_null": 'leaderElection.leaseDuration: time: invalid duration ""',
    "dur_unit": 'leaderElection.leaseDuration: time: missing unit in duration "15"',
    "json": "json: line 1, column 84: Expecting property name enclosed in double quotes",
    "json_end": "json: line 1, column 83: Expecting ',' delimiter",
    "json_word": "json: line 1, column 55: Expecting value",
    "nokind": "Object 'Kind' is missing in 'apiVersion: kubescheduler.config.k8s.io/v1'",
    "noversion": "Object 'apiVersion' is missing in 'kind: KubeSchedulerConfiguration'",
    "yaml": "yaml: line 4, column 1: expected the node content, but found '<stream end>'",
    "yaml_anchor": "yaml: line 3, column 4: found undefined alias 'x'",
    "yaml_colon": "yaml: line 3, column 5: mapping values are not allowed here",
    "yaml_indent": "yaml: line 3, column 4: mapping values are not allowed here",
    "yaml_tab": "yaml: line 3, column 1: found character '\\t' that cannot start any token",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_error_is_upstreams(case: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as raised:
        load_text(case["config"], SCHEME)
    expected = OURS.get(case["name"], case["error"])
    if case["name"] == "json" and sys.version_info >= (3, 13):
        expected = "json: line 1, column 83: Illegal trailing comma before end of object"
    assert str(raised.value) == expected
