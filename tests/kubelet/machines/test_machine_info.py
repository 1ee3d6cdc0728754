"""cAdvisor's MachineInfo on the wire."""

import gzip
import json
from pathlib import Path

from numakube.api.codec import convert, decode, encode
from numakube.kubelet.machines.cadvisor_machine import MachineInfo

VECTORS = Path(__file__).parents[2] / "vectors" / "kubelet.jsonl.gz"


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
