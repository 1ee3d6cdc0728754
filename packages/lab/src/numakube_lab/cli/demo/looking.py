"""What the tools say of the demo's cluster: why a pod waits, and a map of a node."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import click

from numakube.apps.gathering import SCHEDULING, gather
from numakube.insight.drawing.from_facts import node_picture
from numakube.insight.drawing.svg import svg_of
from numakube.insight.engine import engine_of
from numakube.insight.explain import explain, pod_subject, render
from numakube.insight.facts import facts_of
from numakube.topology.view import NodeTopology

if TYPE_CHECKING:
    from numakube.api.core import Pod
    from numakube.insight.facts import ClusterFacts
    from numakube.kube.client import Client


async def look(client: Client) -> ClusterFacts:
    """Return what is known of the cluster now."""
    return facts_of(await gather(client, what=SCHEDULING))


def print_explanation(facts: ClusterFacts, pod: Pod) -> None:
    """Print why *pod* waits, as ``kubectl numa explain pod`` does."""
    explanation = explain(facts, engine_of(facts), pod_subject(pod))
    for line in render(explanation).splitlines():
        click.echo(f"   {line}".rstrip())


def is_reported(facts: ClusterFacts, node: str) -> bool:
    """Tell whether the report of *node* has every pod that runs there."""
    view = facts.view(node)
    if not isinstance(view, NodeTopology) or view.report is None:
        return False
    return all(view.report.accounts_for(pod.metadata.uid) for pod in facts.pods_on(node))


def write_map(facts: ClusterFacts, node: str) -> str:
    """Draw *node* into a file that stays, and return its path."""
    handle, path = tempfile.mkstemp(prefix=f"numakube-{node}-", suffix=".svg")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(svg_of(node_picture(facts, node)))
    return path
