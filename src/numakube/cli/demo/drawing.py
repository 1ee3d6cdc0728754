"""A node of the lab with its pods, drawn."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from numakube.cli.admit import drawing
from numakube.cli.admit.verdicts import Verdict
from numakube.cli.admit.zones import zones_of
from numakube.cli.output import can_draw, make_console
from numakube.kubelet.outcome import Admitted

if TYPE_CHECKING:
    from numakube.api.core import Pod
    from numakube.kubelet.node import KubeletNode
    from numakube.lab.nodes.kubelet import LabKubelet


def draw_node(kubelet: LabKubelet) -> None:
    """Print the zones of a node and who holds what of them."""
    if kubelet.admission is None:
        return
    model = kubelet.admission.model
    verdicts = [Verdict(pod, _placed(model, pod)) for pod in kubelet.admission.pods]
    console = make_console()
    glyphs = drawing.UNICODE if can_draw(sys.stdout.encoding) else drawing.ASCII
    marks = drawing.marks_of(verdicts)
    for part in drawing.draw_zones(zones_of(model, verdicts), marks, glyphs):
        console.print(part)


def _placed(model: KubeletNode, pod: Pod) -> Admitted:
    uid = pod.metadata.uid
    containers = (*(pod.spec.init_containers or ()), *pod.spec.containers)
    placements = {one.name: model.placement(uid, one.name) for one in containers}
    return Admitted(placements, model.shared_cpus)
