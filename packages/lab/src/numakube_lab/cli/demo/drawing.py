"""A node of the lab with its pods, drawn."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from numakube.cli.output import can_draw, make_console
from numakube.cli.painting import print_drawing
from numakube.insight.drawing.from_report import picture_of_model
from numakube.insight.drawing.text import DEFAULT_WIDTH, zone_lines

if TYPE_CHECKING:
    from numakube_lab.nodes.kubelet import LabKubelet


def draw_node(kubelet: LabKubelet) -> None:
    """Print the zones of a node and who holds what of them."""
    if kubelet.admission is None:
        return
    names = {pod.metadata.uid: pod.metadata.key for pod in kubelet.admission.pods}
    picture = picture_of_model("", kubelet.admission.model, pods=names)
    console = make_console()
    width = console.width if console.is_terminal else DEFAULT_WIDTH
    plain = not can_draw(sys.stdout.encoding)
    print_drawing(console, zone_lines(picture, width=width, ascii_only=plain))
