"""Make the pictures of the documentation from the real output: ``python docs/draw.py``.

A test compares the files with what this makes, so the pictures cannot go stale.
"""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.cli.admit import admit_tables, run_example
from numakube.cli.admit.admit_tables import picture_after
from numakube.cli.shared.terminal import name_styles, print_drawing
from numakube.insight.node_map.picture_from_report import picture_of_report
from numakube.insight.node_map.terminal_map import zone_lines
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.topology.exact_report import uid_hash
from numakube.topology.model_report import report_of
from numakube.values.cpuset import CpuSet
from numakube_pages.drawing.svg import svg_of

if TYPE_CHECKING:
    from numakube.api.codec import QuantityText
    from numakube.insight.node_map.picture import NodePicture

FIGURES = Path(__file__).parent / "figures"
PICTURE = Path(__file__).parent / "images" / "admit.svg"
WIDTH = 108
# The default template loads a font from the network; any monospaced font does. Programs that are no
# browsers know fonts by their own names only.
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
LINE_ENDS = re.compile(r"[ \t]+$", re.MULTILINE)


def draw() -> str:
    """Return the example's table and drawing as SVG."""
    console = Console(
        record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    node, verdicts = run_example()
    picture = picture_after(node, verdicts)
    console.print("$ numakube plan admit --example", style="bold")
    console.print(admit_tables.verdict_table(verdicts, name_styles(picture, console)))
    for part in admit_tables.refusals(verdicts):
        console.print(part)
    console.print()
    print_drawing(console, zone_lines(picture, width=WIDTH))
    svg = console.export_svg(title="numakube", unique_id="numakube")
    return LINE_ENDS.sub("", FONT_FACE.sub("", svg)).replace("Fira Code, monospace", FONT)


def figures() -> dict[str, str]:
    """Return the drawings of nodes by file name."""
    return {"node-map.svg": svg_of(_busy_node())}


def _busy_node() -> NodePicture:
    """Return a node with eight zones, GPUs, network cards and a dozen pods."""
    machine = from_shape(
        "2 sockets, 4 numa each, 16 cores, smt 2, uncore 8, 128Gi, hugepages-1Gi 8,"
        " nvidia.com/gpu 1, vendor.example/nic 2"
    )
    settings = KubeletSettings(
        topology_policy="single-numa-node",
        cpu_policy="static",
        cpu_options={"full-pcpus-only": "true"},
        reserved_cpus=CpuSet.parse("0,64,128,192"),
        memory_policy="Static",
        reserved_memory={zone.id: {"memory": 1 << 30} for zone in machine.nodes},
    )
    node = KubeletNode(machine, settings)
    trainer = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "1", "vendor.example/nic": "1"}
    packet = {"cpu": "4", "memory": "4Gi", "hugepages-1Gi": "4Gi", "vendor.example/nic": "1"}
    pods = [
        *(_pod(f"training/worker-{number}", trainer) for number in range(5)),
        *(_pod(f"shop/database-{number}", {"cpu": "8", "memory": "48Gi"}) for number in range(3)),
        *(_pod(f"edge/gateway-{number}", packet) for number in range(2)),
        *(_pod(f"shop/cache-{number}", {"cpu": "2", "memory": "16Gi"}) for number in range(4)),
    ]
    for pod in pods:
        node.admit(pod)
    names = {uid_hash(pod.metadata.uid): pod.metadata.key for pod in pods}
    return picture_of_report("gpu-node-17", report_of(node), pods=names)


def _pod(key: str, resources: dict[str, QuantityText]) -> Pod:
    namespace, _, name = key.partition("/")
    asked = ResourceRequirements(requests=resources, limits=resources)
    return Pod(
        metadata=ObjectMeta(namespace=namespace, name=name, uid=key),
        spec=PodSpec(containers=(Container(name="app", resources=asked),)),
    )


if __name__ == "__main__":
    FIGURES.mkdir(exist_ok=True)
    for file, content in figures().items():
        (FIGURES / file).write_text(content, encoding="utf-8")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(), encoding="utf-8")
