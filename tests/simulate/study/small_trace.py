"""A small trace for the FGD study."""

from pathlib import Path

POD_COLUMNS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"


def write_small_trace(directory: Path) -> None:
    """Write 6 nodes and 30 pods, which ask for half of all GPUs."""
    directory.mkdir(exist_ok=True)
    nodes = [
        f"node-{i},32000,65536,{2 if i % 2 else 4},{'T4' if i % 2 else 'G2'}" for i in range(6)
    ]
    header = "sn,cpu_milli,memory_mib,gpu,model\n"
    (directory / "openb_node_list_gpu_node.csv").write_text(
        header + "\n".join(nodes) + "\n", encoding="utf-8"
    )
    kinds = ("1,300,", "1,500,T4", "0,0,", "1,1000,G2|T4", "2,1000,", "1,90,")
    pods = [f"pod-{i},{1000 + 500 * (i % 3)},1024,{kinds[i % 6]}" for i in range(30)]
    (directory / "openb_pod_list_small.csv").write_text(
        POD_COLUMNS + "\n".join(pods) + "\n", encoding="utf-8"
    )
