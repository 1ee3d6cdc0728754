"""The drawing of a node, as part of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from numakube.insight.drawing.from_facts import node_picture
from numakube.insight.drawing.svg import svg_of
from numakube.insight.facts import ClusterFacts

if TYPE_CHECKING:
    from numakube.apps.dashboard.source import Source


def drawing_of(source: Source, name: str) -> Markup | None:
    """Return the drawing of a node as SVG; ``None`` if nothing is known that could be drawn."""
    report = source.report(name)
    if report is None:
        return None
    facts = ClusterFacts(pods=tuple(source.pod_book.running_on(name)), topologies={name: report})
    picture = node_picture(facts, name)
    if not picture.zones:
        return None
    # What comes from the cluster is escaped by the drawing; the style sheet is a file of ours.
    return Markup(svg_of(picture, prefix="drawing-", style=False))  # noqa: S704
