"""Reading the trace: what the columns mean, and one clear line for whatever is wrong."""

from pathlib import Path

import pytest

from conformance.replay.trace import TraceError, TraceNode, TracePod, read_nodes, read_pods

POD_HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase\n"
NODE_HEADER = "sn,cpu_milli,memory_mib,gpu,model\n"


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return tmp_path / "list.csv"


def test_a_node_is_read_by_the_names_of_its_columns_in_any_order(csv: Path) -> None:
    csv.write_text(
        "model,gpu,sn,rack,memory_mib,cpu_milli\nT4,2,node-1,r7,262144,96000\n", encoding="utf-8"
    )
    assert read_nodes(csv) == (TraceNode("node-1", 96000, 262144, 2, "T4"),)


def test_a_node_without_gpus_has_no_model(csv: Path) -> None:
    csv.write_text(NODE_HEADER + "node-1,32000,262144,0,\n", encoding="utf-8")
    assert read_nodes(csv) == (TraceNode("node-1", 32000, 262144, 0, ""),)


def test_a_pod_asks_for_all_its_gpus_together(csv: Path) -> None:
    csv.write_text(POD_HEADER + "p,12000,16384,4,1000,,LS,Running\n", encoding="utf-8")
    (pod,) = read_pods(csv)
    assert pod == TracePod("p", 12000, 16384, 4, 1000, (), "LS")
    assert pod.gpu_milli_total == 4000


def test_models_are_separated_by_a_bar_and_count_once(csv: Path) -> None:
    csv.write_text(
        POD_HEADER + "p,1,1,1,500,V100M16|V100M32|V100M32,BE,Running\n", encoding="utf-8"
    )
    assert read_pods(csv)[0].models == ("V100M16", "V100M32")


def test_a_limit_takes_the_first_pods_and_looks_at_no_other(csv: Path) -> None:
    csv.write_text(
        POD_HEADER + "a,1,1,0,0,,LS,x\nb,1,1,0,0,,LS,x\nc,not a number,1,0,0,,LS,x\n",
        encoding="utf-8",
    )
    assert [pod.name for pod in read_pods(csv, limit=2)] == ["a", "b"]


def test_a_byte_order_mark_and_blank_lines_do_no_harm(csv: Path) -> None:
    csv.write_text("\ufeff" + NODE_HEADER + "\nn,1,1,0,\n\n", encoding="utf-8")
    assert [node.name for node in read_nodes(csv)] == ["n"]


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("", ":1: ", "the file is empty, expected sn,cpu_milli"),
        (NODE_HEADER, ":1: ", "no nodes after the line of column names"),
        ("sn,cpu_milli,gpu,model\nn,1,0,\n", ":1: column 'memory_mib': ", "missing; found sn,"),
        ("sn,sn,cpu_milli,memory_mib,gpu,model\n", ":1: column 'sn': ", "there twice"),
        (NODE_HEADER + "n,1,1,0,\nm,x,1,0,\n", ":3: column 'cpu_milli': ", "found 'x'"),
        (NODE_HEADER + "n,-1,1,0,\n", ":2: column 'cpu_milli': ", "found '-1'"),
        (NODE_HEADER + "n,1.5,1,0,\n", ":2: column 'cpu_milli': ", "found '1.5'"),
        (NODE_HEADER + "n,,1,0,\n", ":2: column 'cpu_milli': ", "found ''"),
        (NODE_HEADER + "n,1,1,9999999999999,\n", ":2: column 'gpu': ", "found '9999999999999'"),
        (NODE_HEADER + "n,1,1,\u0661,\n", ":2: column 'gpu': ", "expected a whole number"),
        (NODE_HEADER + "Node_1,1,1,0,\n", ":2: column 'sn': ", "lower case"),
        (NODE_HEADER + "n,1,1,1,T 4\n", ":2: column 'model': ", "expected label values"),
        (NODE_HEADER + "n,1,1,0,\nn,1,1,0,\n", ":3: column 'sn': ", "that no line before has"),
        (NODE_HEADER + "n,1,1\n", ":2: column 'gpu': ", "expected 5 columns, found 3"),
        (NODE_HEADER + "n,1,1,0,T4,x\n", ":2: column 'model': ", "expected 5 columns, found 6"),
        (NODE_HEADER + 'n,1,1,0,"T4\n', ":2: ", "not CSV: unexpected end of data"),
    ],
)  # fmt: skip
def test_an_error_names_file_line_and_column(csv: Path, text: str, where: str, what: str) -> None:
    csv.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError) as caught:
        read_nodes(csv)
    message = str(caught.value)
    assert message.startswith(f"{csv}{where}")
    assert what in message
    assert "\n" not in message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"gone\.csv: No such file or directory"):
        read_pods(tmp_path / "gone.csv")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="Is a directory"):
        read_pods(tmp_path)


def test_bytes_that_are_no_text_are_refused(csv: Path) -> None:
    csv.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match="not UTF-8 text"):
        read_pods(csv)


def test_times_are_read_on_request(csv: Path) -> None:
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time"
    csv.write_text(f"{header}\np,1,1,0,0,,LS,5,9\nq,1,1,0,0,,LS,5,4\n", encoding="utf-8")
    (pod,) = read_pods(csv, limit=1, with_times=True)
    assert (pod.created_seconds, pod.deleted_seconds) == (5, 9)
    with pytest.raises(TraceError, match="'deletion_time': expected a time"):
        read_pods(csv, with_times=True)
