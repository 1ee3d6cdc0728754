"""cAdvisor's MachineInfo keeps everything that the kubelet reads."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from tests.strategies.machines import machines

from numakube.api.codec import convert, decode, encode
from numakube.errors import MalformedObject
from numakube.kubelet.machine import Core, Device, HugePages, Machine, NumaNode
from numakube.kubelet.machines.cadvisor_machine import (
    MachineInfo,
    from_cadvisor,
    read_devices,
    to_cadvisor,
    write_devices,
)

VECTORS = Path(__file__).parents[2] / "vectors" / "kubelet.jsonl.gz"

NODE: dict[str, Any] = {
    "node_id": 2,
    "memory": 1 << 30,
    "hugepages": [{"page_size": 2048, "num_pages": 3}],
    "cores": [
        {
            "core_id": 7,
            "thread_ids": [9, 1],
            "socket_id": 1,
            "uncore_caches": [{"id": 5}, {"id": 6}],
        },
        {"core_id": 7, "thread_ids": [2], "socket_id": 0},
    ],
    "distances": [21, 10],
}


def test_reads_what_the_kubelet_reads() -> None:
    """Ids, thread order, the first uncore cache and distances come through untouched."""
    machine = from_cadvisor({"num_cores": 3, "num_sockets": 2, "topology": [NODE]})

    (node,) = machine.nodes
    assert (machine.cpu_count, machine.socket_count) == (3, 2)
    assert (node.id, node.memory_bytes, node.distances) == (2, 1 << 30, (21, 10))
    assert node.hugepages == (HugePages(page_bytes=2 << 20, count=3),)
    assert node.cores == (
        Core(id=7, threads=(9, 1), socket=1, uncore_cache=5),
        Core(id=7, threads=(2,), socket=0, uncore_cache=None),
    )


def test_node_order_is_kept() -> None:
    """Nodes stay in the order of the document, even when ids are not ascending."""
    topology = [{"node_id": id_} for id_ in (0, 10, 2)]

    assert [node.id for node in from_cadvisor({"topology": topology}).nodes] == [0, 10, 2]


def test_absent_and_null_fields_are_zero_values() -> None:
    """As in Go, null and absent mean zero: an empty document is an empty machine."""
    assert from_cadvisor({}).nodes == ()
    (node,) = from_cadvisor({"num_cores": None, "topology": [{"cores": None}]}).nodes
    assert (node.id, node.cores, node.distances) == (0, (), ())


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"num_cores": "4"}, "num_cores"),
        ({"topology": [{}, {"memory": -1}]}, "topology[1].memory"),
        (
            {"topology": [{"cores": [{"thread_ids": [0, "x"]}]}]},
            "topology[0].cores[0].thread_ids[1]",
        ),
        ({"topology": {}}, "topology"),
    ],
)
def test_a_wrong_type_is_reported_with_its_field(document: dict[str, Any], path: str) -> None:
    """The error names the subject and the exact field."""
    with pytest.raises(MalformedObject) as caught:
        from_cadvisor(document, subject="m.json")

    assert (caught.value.subject, caught.value.path) == ("m.json", path)


def test_a_document_that_is_no_object_is_refused() -> None:
    """A list at the top is an error, not a crash."""
    with pytest.raises(MalformedObject, match="expected an object"):
        from_cadvisor([])  # type: ignore[arg-type]


def test_every_recorded_machine_survives_the_round_trip() -> None:
    """Reading, writing and reading a recorded machine changes nothing."""
    with gzip.open(VECTORS, "rt") as lines:
        rows = [json.loads(line) for line in lines]

    for row in rows:
        devices = read_devices(row["devices"])
        machine = from_cadvisor(row["machine"], devices=devices)
        assert from_cadvisor(to_cadvisor(machine), devices=devices) == machine
        assert write_devices(devices) == row["devices"]
        assert to_cadvisor(machine)["memory_capacity"] == row["machine"]["memory_capacity"]


@given(machines())
def test_every_machine_survives_the_round_trip(machine: Machine) -> None:
    """Nothing that the kubelet reads is lost on the way through JSON."""
    document = json.loads(json.dumps(to_cadvisor(machine)))
    devices = read_devices(json.loads(json.dumps(write_devices(machine.devices))))

    assert from_cadvisor(document, devices=devices) == machine


def test_a_page_size_that_json_cannot_express_is_refused() -> None:
    """MachineInfo counts page sizes in KiB."""
    node = NumaNode(id=0, memory_bytes=0, hugepages=(HugePages(page_bytes=1000, count=1),))

    with pytest.raises(MalformedObject, match="not a whole number of KiB"):
        to_cadvisor(Machine(nodes=(node,), cpu_count=0, socket_count=0))


def test_devices_without_topology_have_no_numa_nodes() -> None:
    """An empty, null or absent list means that the plugin reported no topology."""
    devices = read_devices({"x.io/a": [{"id": "a"}, {"id": "b", "numa": None, "healthy": False}]})

    assert devices["x.io/a"] == (Device(id="a"), Device(id="b", healthy=False))
    assert write_devices(devices)["x.io/a"][1] == {"id": "b", "numa": [], "healthy": False}


# cAdvisor's MachineInfo on the wire.


def test_every_recorded_machine_is_read_and_written_back() -> None:
    """Nulls become empty lists, nothing else changes."""
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        machines = [json.loads(line)["machine"] for _, line in zip(range(100), lines, strict=False)]

    for machine in machines:
        info = convert(MachineInfo, machine)
        assert decode(MachineInfo, encode(info)) == info
        again = json.loads(encode(info))
        assert [node["node_id"] for node in again["topology"]] == [
            node["node_id"] for node in machine["topology"]
        ]
        assert again["num_cores"] == machine["num_cores"]
        assert all(
            core["thread_ids"] == before["thread_ids"]
            and (before["uncore_caches"] or []) == core["uncore_caches"]
            for node, node_before in zip(again["topology"], machine["topology"], strict=True)
            for core, before in zip(node["cores"], node_before["cores"], strict=True)
        )
