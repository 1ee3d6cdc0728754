"""Maps show how devices are connected, in the words of ``nvidia-smi topo -m``."""

from __future__ import annotations

from tests.insight.node_map import nodes

from numakube.insight.node_map.map_json import picture_document
from numakube.insight.node_map.map_words import connections_of
from numakube.insight.node_map.picture import NodePicture
from numakube.insight.node_map.picture_from_report import picture_of_machine
from numakube.insight.node_map.terminal_map import matrix_lines, plain_text, text_of
from numakube.kubelet.machines.shape_text import from_shape

SWITCHED = "2 sockets, 4 cores, smt 2, 32Gi, gpu 2, nic 2, 2 switches, links 18 gpu"


def switched() -> NodePicture:
    """Return a node with a GPU and a network card behind each switch, and one pod."""
    pod = nodes.named("trainer", cpu="4", memory="8Gi", gpu="1", nic="1")
    return nodes.picture("worker-1", nodes.kubelet(SWITCHED), pod)


def matrix(picture: NodePicture, *, width: int = 100) -> str:
    """Return the matrix as text."""
    return plain_text(matrix_lines(picture, width=width))


def test_the_matrix_has_a_row_for_each_device_and_the_pods_that_have_them() -> None:
    """GPUs and cards behind one switch are PIX, within the zone NODE, else SYS."""
    assert """
closeness     gpu                 nic
zone          0    1    2    3    0    1    2    3
0     gpu 0 A X    NV18 NV18 NV18 PIX  NODE SYS  SYS
0     gpu 1 · NV18 X    NV18 NV18 NODE PIX  SYS  SYS
1     gpu 2 · NV18 NV18 X    NV18 SYS  SYS  PIX  NODE
1     gpu 3 · NV18 NV18 NV18 X    SYS  SYS  NODE PIX
0     nic 0 A PIX  NODE SYS  SYS  X    NODE SYS  SYS
0     nic 1 · NODE PIX  SYS  SYS  NODE X    SYS  SYS
1     nic 2 · SYS  SYS  PIX  NODE SYS  SYS  X    NODE
1     nic 3 · SYS  SYS  NODE PIX  SYS  SYS  NODE X
""" in matrix(switched())


def test_eight_gpus_and_eight_cards_fit_into_a_hundred_columns() -> None:
    """That is the machine that people have."""
    text = matrix(picture_of_machine("", from_shape("dgx-h100")))

    assert max(map(len, text.splitlines())) <= 100
    assert "0     gpu 0     · X    NV18 NV18" in text


def test_a_matrix_that_is_too_wide_goes_on_below() -> None:
    """Every column is there once, and no line is wider than asked for."""
    text = matrix(picture_of_machine("", from_shape(SWITCHED)), width=40)

    assert max(map(len, text.splitlines())) <= 40
    assert text.count("closeness") == 2
    assert text.count("\n0     nic 0 · ") == 2


def test_the_map_tells_what_is_behind_one_switch() -> None:
    picture = switched()

    assert "behind one PCIe switch\n  zone 0  gpu 0 A, nic 0 A\n" in text_of(picture)


def test_virtual_functions_of_one_card_are_one_row() -> None:
    """Under the card's address, since their numbers say little."""
    connections = connections_of(picture_of_machine("", from_shape("telco-2s")))

    assert connections is not None
    assert [function.label for function in connections.functions] == [
        "acc100 03:00.0",
        "sriov 01:00.0",
        "sriov 05:00.0",
    ]
    assert connections.switches() == ()


def test_links_between_gpus_of_amd_are_called_xgmi() -> None:
    """NVLink is the word of another maker."""
    text = matrix(picture_of_machine("", from_shape("mi300x")))

    assert "XGMI linked by xGMI" in text
    assert "NV1" not in text


def test_json_has_paths_and_matrix() -> None:
    """For scripts, with the address of each device."""
    document = picture_document(switched())

    first = document["connections"]["functions"][0]
    assert first == {
        "address": "0000:03:00.0",
        "root": "pci0000:00",
        "bridges": ["0000:00:01.0", "0000:01:00.0", "0000:02:00.0"],
        "zone": 0,
        "resource": "vendor.example/gpu",
        "positions": [0],
    }
    assert document["connections"]["closeness"][0][4:] == ["PIX", "NODE", "SYS", "SYS"]
    assert document["zones"][0]["devices"][0]["pci"] == "0000:03:00.0"


def test_without_a_tree_there_is_no_matrix() -> None:
    """That is said, and nothing is made up."""
    assert "How the devices of this node are connected is not known." in matrix(nodes.small())
    assert "connections" not in picture_document(nodes.small())
    assert "switch" not in text_of(nodes.small())
