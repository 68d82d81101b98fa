import base64
from pathlib import Path

import pytest

from scheduler.config import ConfigError, default_config, load_config, load_text
from scheduler.plugins import SCHEME
from tests.config.tables import Case, differs_from_default, sources, table

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.mark.parametrize("case", table("load.yaml"))
def test_a_text_is_read_or_refused_as_upstream_does(case: Case) -> None:
    if "error" in case:
        with pytest.raises(ConfigError) as caught:
            load_text(case["text"], SCHEME)
        assert str(caught.value) == case["error"]
    else:
        actual, expected = differs_from_default(load_text(case["text"], SCHEME), case["want"])
        assert actual == expected


def test_upstreams_tables_are_all_here() -> None:
    # The fourth of TestLoadConfigFromFile is the test after this one.
    assert sources("load.yaml") == {"TestCodecsDecodePluginConfig": 10, "TestLoadConfigFromFile": 3}


def test_an_empty_path_is_no_file() -> None:
    """TestLoadConfigFromFile#Empty scheduler config file path."""
    with pytest.raises(ConfigError, match=r"^open : no such file or directory$"):
        load_config("", SCHEME)


@pytest.mark.parametrize(
    "nulls",
    [
        "profiles: [{pluginConfig: null, plugins: null, percentageOfNodesToScore: null}]",
        "profiles: [{plugins: {filter: {enabled: null, disabled: null}}}]",
        "extenders: null\nprofiles: null\nleaderElection: null",
    ],
)
def test_null_is_the_absence_of_a_field(nulls: str) -> None:
    assert load_text(f"{HEAD}{nulls}", SCHEME) == load_text(HEAD, SCHEME)


@pytest.mark.parametrize(
    ("labels", "error"),
    [
        ("null", ""),
        ("[1]", "cannot unmarshal array into Go struct field .*matchLabels of type map.string.str"),
        ("{a: 1}", "cannot unmarshal number into Go struct field .*matchLabels.a of type string"),
    ],
)
def test_a_mapping_is_checked_with_its_values(labels: str, error: str) -> None:
    constraint = "maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway"
    args = (
        f"defaultConstraints: [{{{constraint}, labelSelector: {{matchLabels: {labels}}}}}], "
        "defaultingType: List"
    )
    text = f"profiles: [{{pluginConfig: [{{name: PodTopologySpread, args: {{{args}}}}}]}}]"
    if not error:
        load_text(HEAD + text, SCHEME)
        return
    with pytest.raises(ConfigError, match=error):
        load_text(HEAD + text, SCHEME)


def test_null_is_the_absence_of_data_and_a_number_is_none() -> None:
    extender = "extenders: [{urlPrefix: 'http://x', managedResources: null, tlsConfig: TLS}]"
    (read,) = load_text(HEAD + extender.replace("TLS", "{caData: null}"), SCHEME).extenders
    assert (read.managed_resources, read.tls_config.ca_data) == ((), b"")
    with pytest.raises(ConfigError, match=r"caData: must be base64-encoded data"):
        load_text(HEAD + extender.replace("TLS", "{caData: 5}"), SCHEME)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}parallelism: 3\n", encoding="utf-8")
    assert load_config(path, SCHEME).parallelism == 3
    assert load_config(str(path), SCHEME) == load_text(f"{HEAD}parallelism: 3\n", SCHEME)


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}',
        encoding="utf-8-sig",
    )
    assert load_config(path, SCHEME) == default_config(SCHEME)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    with pytest.raises(ConfigError, match="no such file or directory") as caught:
        load_config(missing, SCHEME)
    assert str(caught.value) == f"open {missing}: no such file or directory"
    with pytest.raises(ConfigError, match=f"open {tmp_path}: is a directory"):
        load_config(tmp_path, SCHEME)
    binary = tmp_path / "binary"
    binary.write_bytes(b"kind: \xff\xfe")
    with pytest.raises(ConfigError, match=f"read {binary}: not UTF-8 text: byte 6 is wrong"):
        load_config(binary, SCHEME)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"{HEAD}a: [b\n", "yaml: line 4, column 1: expected ',' or ']', but got '<stream end>'"),
        (
            f"{HEAD}profiles:\n\t- a\n",
            "yaml: line 4, column 1: found character '\\t' that cannot start any token",
        ),
        (
            "kind: \x07\n",
            "yaml: character #x0007 at position 6: special characters are not allowed",
        ),
        (f"{HEAD}profiles: &a [*a]\n", "yaml: line 3, column 11: anchor value contains itself"),
        (f"{HEAD}? [a]\n: b\n", "yaml: line 3, column 3: a mapping key must be a scalar"),
        (f"{HEAD}~: b\n", "yaml: line 3, column 1: a mapping key must not be null"),
        (
            f"{HEAD}<<: 3\n",
            "yaml: line 3, column 5: map merge requires map or sequence of maps as the value",
        ),
        (f"{HEAD}parallelism: .inf\n", "yaml: line 3, column 14: .inf is not a JSON value"),
        (
            f"{HEAD}parallelism: !!binary '?'\n",
            "yaml: line 3, column 14: !!binary value contains invalid base64 data",
        ),
        (f"{HEAD}profiles: *a\n", "yaml: line 3, column 11: found undefined alias 'a'"),
        ('{"kind": }', "json: line 1, column 10: Expecting value"),
        ('{"kind": "a",\n "a": tru}', "json: line 2, column 7: Expecting value"),
        ('{"a": NaN}', "json: NaN is not a JSON value"),
        ('{"a": 1} {}', "json: line 1, column 10: Extra data"),
        ("[" * 1_000, "the document is nested too deeply"),
        ('{"a":' * 50_000, "the document is nested too deeply"),
    ],
)
def test_bad_syntax_is_one_line_with_its_place(text: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(text, SCHEME)
    assert str(caught.value) == error
    assert caught.value.__cause__ is not None


def test_a_few_aliases_cannot_stand_for_billions_of_values() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for level in range(1, 9):
        text += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n"
    with pytest.raises(ConfigError, match="document contains excessive aliasing"):
        load_text(HEAD + text, SCHEME)


def test_a_long_text_is_not_repeated_in_an_error() -> None:
    with pytest.raises(ConfigError) as caught:
        load_text("parallelism: 3\n" * 100, SCHEME)
    assert str(caught.value).startswith("Object 'Kind' is missing in 'parallelism: 3 parallelism: ")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            "leaderElection: {leaseDuration: '15'}",
            'leaderElection.leaseDuration: time: missing unit in duration "15"',
        ),
        (
            "leaderElection: {leaseDuration: null}",
            'leaderElection.leaseDuration: time: invalid duration ""',
        ),
    ],
)
def test_the_error_of_a_duration_names_the_field(line: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(f"{HEAD}{line}\n", SCHEME)
    assert str(caught.value) == error


def test_a_private_key_is_not_shown_in_an_error() -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(f"{HEAD}extenders: [{{tlsConfig: {{keyData: 'secret!'}}}}]\n", SCHEME)
    assert str(caught.value) == "extenders[0].tlsConfig.keyData: must be base64-encoded data"


def test_base64_data_may_be_wrapped() -> None:
    data = base64.b64encode(b"certificate" * 20).decode()
    wrapped = "".join(f"      {data[i : i + 64]}\n" for i in range(0, len(data), 64))
    config = load_text(f"{HEAD}extenders:\n- tlsConfig:\n    caData: |\n{wrapped}", SCHEME)
    (extender,) = config.extenders
    assert extender.tls_config is not None
    assert extender.tls_config.ca_data == b"certificate" * 20


def test_merged_mappings_and_aliases_are_expanded() -> None:
    config = load_text(
        f"{HEAD}extenders:\n"
        "- &first {urlPrefix: http://a, weight: 3}\n"
        "- {<<: *first, ignorable: true}\n"
        "- {<<: [{filterVerb: f}, *first]}\n"
        "- *first\n",
        SCHEME,
    )
    first, second, third, fourth = config.extenders
    assert first == fourth
    assert (second.url_prefix, second.weight, second.ignorable) == ("http://a", 3, True)
    assert (third.url_prefix, third.filter_verb) == ("http://a", "f")


def test_a_json_number_is_an_integer_only_without_a_point() -> None:
    head = '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"'
    assert load_text(head + ', "parallelism": 3}', SCHEME).parallelism == 3
    with pytest.raises(ConfigError, match=r"number 3\.0 into .*parallelism of type int32$"):
        load_text(head + ', "parallelism": 3.0}', SCHEME)
