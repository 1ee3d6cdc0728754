"""Rows of the public traces."""

import pytest

from numakube.errors import MalformedObject
from numakube_planning.simulation.trace_rows import TraceNode, TracePod, read_nodes, read_pods

GIB = 1 << 30
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,96000,393216,8,G2\nn1,32000,131072,0,\n"
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
    "p0,12000,16384,1,1000,,LS,Running,0,12537496,0\n"
    "p1,6000,12288,1,460,G2|T4,BE,Pending,427061,12902960,\n"
    "p2,4000,8192,0,0,,BE,Running,5,9,5\n"
)
V2025 = (
    "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,"
    "rdma_limit,memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,"
    "creation_time,scheduled_time,deletion_time\n"
    "instance_0,HN,app_0,12,12,1,1,25,25,120.0,120.0,680.0,800.0,8,,,\n"
    "instance_1,CN,app_1,64,64,0,0,1,1,320.5,320.5,255.0,300.0,-1,1435629.0,1435629.0,1435760.0\n"
    "instance_2,CN,app_1,2,2,0,0,0,0,4.0,4.0,1.0,1.0,-1,NaN,NaN,NaN\n"
)


def test_nodes_have_cpus_memory_and_gpus_of_one_model() -> None:
    """Nodes have CPUs, memory, and GPUs of one model."""
    assert read_nodes(NODES.splitlines(), file="nodes.csv") == (
        TraceNode(name="n0", cpu_milli=96000, memory_bytes=384 * GIB, gpus=8, gpu_model="G2"),
        TraceNode(name="n1", cpu_milli=32000, memory_bytes=128 * GIB),
    )


def test_openb_pods_have_whole_gpus_or_a_part_of_one() -> None:
    """Pods of openb have whole GPUs or a part of one."""
    whole, part, none = read_pods(OPENB.splitlines(), file="pods.csv")
    assert whole == TracePod(
        name="p0", cpu_milli=12000, memory_bytes=16 * GIB, gpus=1, gpu_milli=1000, qos="LS",
        deleted=12537496.0,
    )  # fmt: skip
    assert (whole.shares_gpu, part.shares_gpu, none.shares_gpu) == (False, True, False)
    assert (part.gpu_models, part.created, part.total_gpu_milli) == (("G2", "T4"), 427061.0, 460)
    assert (none.gpus, none.total_gpu_milli) == (0, 0)


def test_openb_variants_have_requests_alone() -> None:
    """Variants of openb have requests alone."""
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,12000,16384,8,1000\n"
    (pod,) = read_pods(text.splitlines(), file="pods.csv")
    assert (pod.gpus, pod.qos, pod.created, pod.deleted) == (8, "", 0.0, None)


def test_pods_of_2025_have_a_part_of_a_network_card() -> None:
    """Pods of the trace of 2025 have a part of a network card."""
    gpu, cpu, always = read_pods(V2025.splitlines(), file="v2025.csv")
    assert gpu == TracePod(
        name="instance_0", cpu_milli=12000, memory_bytes=120 * GIB, gpus=1, gpu_milli=1000,
        rdma_percent=25, qos="LS", app="app_0", most_per_node=8,
    )  # fmt: skip
    assert (cpu.memory_bytes, cpu.most_per_node, cpu.created) == (
        320 * GIB + GIB // 2,
        None,
        1435629.0,
    )
    assert (always.created, always.deleted) == (0.0, None)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("p9,x,1,0,0,,LS,Running,0,1,0", "pods.csv row 5: cpu_milli: 'x' is not a number"),
        ("p9,nan,1,0,0,,LS,Running,0,1,0", "pods.csv row 5: cpu_milli: 'nan' is not a number"),
        ("p9,1,1.5,0,0,,LS,Running,0,1,0", "row 5: memory_mib: '1.5' is not a whole number"),
        ("p9,1,-1,0,0,,LS,Running,0,1,0", "row 5: memory_mib: -1 is less than 0"),
        ("p9,1,1,1,1001,,LS,Running,0,1,0", "row 5: gpu_milli: 1001 is more than 1000"),
        ("p9,1,1,2,500,,LS,Running,0,1,0", "row 5: gpu_milli: 2 GPUs with 500 thousandths of each"),
        ("p9,1,1,0,500,,LS,Running,0,1,0", "row 5: gpu_milli: 0 GPUs with 500 thousandths of each"),
        ("p9,1,1,0,0,,LS,Running,soon,1,0", "row 5: creation_time: 'soon' is not a number"),
        ("p0,1,1,0,0,,LS,Running,0,1,0", "row 5: name: 'p0' is there twice"),
        (",1,1,0,0,,LS,Running,0,1,0", "row 5: name: no name"),
        ("p9,1,1,0", "row 5: gpu_milli: the row ends before this field"),
        ("p9,1,1,0,0,,LS,Running,0,1,0,7", "row 5: the row has more cells than the header"),
    ],
)
def test_a_broken_row_is_named_with_its_field(row: str, message: str) -> None:
    """A broken row is named with its field."""
    with pytest.raises(MalformedObject) as caught:
        read_pods((OPENB + row).splitlines(), file="pods.csv")
    assert message in str(caught.value)


def test_a_file_of_another_kind_is_told_by_its_header() -> None:
    """A file of another kind is told by its header."""
    with pytest.raises(MalformedObject, match=r"pods\.csv row 1: the header lacks name, num_gpu"):
        read_pods(NODES.splitlines(), file="pods.csv")
    with pytest.raises(MalformedObject, match=r"nodes\.csv row 1: the header lacks sn, gpu, model"):
        read_nodes(OPENB.splitlines(), file="nodes.csv")
    with pytest.raises(MalformedObject, match="the header lacks rdma_request"):
        read_pods([V2025.splitlines()[0].replace("rdma_request", "nic")], file="v2025.csv")
    with pytest.raises(MalformedObject, match="row 1: the header lacks"):
        read_pods([], file="empty.csv")
