"""No false alarms: whatever the machine and the kubelet's options, a node that is well is well."""

from __future__ import annotations

import pytest
from tests.apps.exporter.test_numa_hardware_machines import SHAPES
from tests.insight.doctor.documents import Documents, resources

from numakube.insight.doctor.findings import Severity
from numakube.kubelet.machines.shape import PRESETS

# Kubelets before 1.36 give no answer to pods with devices on these.
UNWELL = {"gb200-nvl4", "gb300"}
MACHINES = (*(shape for name, shape in PRESETS.items() if name not in UNWELL), *SHAPES)
KUBELETS = (
    "",
    "policy=restricted,scope=pod",
    "policy=best-effort,full-pcpus-only=true",
    "policy=none,cpu=none,memory=None",
    "policy=single-numa-node,memory=None",
    "policy=restricted,distribute-cpus-across-numa=true,prefer-closest-numa-nodes=true",
)


def test_there_are_many_machines() -> None:
    """Presets and the shapes on which exporters are tested."""
    assert len(MACHINES) >= 20


@pytest.mark.parametrize("shape", MACHINES)
def test_nodes_that_are_well_have_no_findings(shape: str) -> None:
    """Nothing but that memory is not aligned where it is not."""
    cpus = 4 if "smt 4" in shape else 2
    for exact in (True, False):
        world = Documents()
        for number, kubelet in enumerate(KUBELETS):
            name = f"node-{number}"
            if "ids " in shape:
                # Looking up distances by id, the kubelet runs over the end of the list.
                kubelet = kubelet.removesuffix(",prefer-closest-numa-nodes=true")
            world.add_node(name, machine=shape, kubelet=kubelet)
            world.nodes[name]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")
            if "none" not in kubelet:
                world.run(f"web-{number}", name, resources=resources(cpu=cpus, memory="1Gi"))
            world.report(name, exact=exact)
        entries = world.diagnosis().entries
        assert [
            entry.rule.id for entry in entries if entry.rule.severity is not Severity.INFO
        ] == []
        assert {entry.rule.id for entry in entries} <= {"NUMA-KUBELET-MEMORY-OFF"}
