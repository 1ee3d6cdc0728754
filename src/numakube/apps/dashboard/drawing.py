"""The drawing of a node, as part of a page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from markupsafe import Markup

from numakube.insight.drawing.from_facts import node_picture
from numakube.insight.drawing.svg import svg_of
from numakube.insight.facts import ClusterFacts

if TYPE_CHECKING:
    from numakube.apps.dashboard.source import Source


def drawing_of(source: Source, name: str, *, prefix: str) -> Markup | None:
    """Return the drawing of a node as SVG; ``None`` if nothing is known that could be drawn.

    The page has the node's name as its title; pods lead to their pages below *prefix*.
    """
    report = source.report(name)
    if report is None:
        return None
    facts = ClusterFacts(pods=tuple(source.pod_book.running_on(name)), topologies={name: report})
    picture = node_picture(facts, name)
    if not picture.zones:
        return None

    def link(pod: str) -> str:
        namespace, slash, own = pod.partition("/")
        # Pods that only the report knows have no name.
        return f"{prefix}pods/{quote(namespace, safe='')}/{quote(own, safe='')}" if slash else ""

    unnamed = replace(picture, node="")
    # What comes from the cluster is escaped by the drawing; the style sheet is a file of ours.
    return Markup(svg_of(unnamed, prefix="drawing-", style=False, link=link))  # noqa: S704
