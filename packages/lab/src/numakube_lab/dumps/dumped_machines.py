"""Lab nodes like those of a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.simulation.observed_node import observed_node
from numakube.values.quantity import value
from numakube_lab.nodes.node_object import STORAGE
from numakube_lab.nodes.plan import STORAGE_BYTES, NodePlan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.nodes import Node
    from numakube_lab.dumps.dump import Dump


def plans_of(
    dump: Dump, words: Mapping[str, str], *, kubernetes: str | None = None
) -> tuple[NodePlan, ...]:
    """Return a plan for each node of *dump*; *words* and *kubernetes* go before what it says."""
    return tuple(_plan(node, dump, words, kubernetes) for node in dump.nodes)


def _plan(node: Node, dump: Dump, words: Mapping[str, str], kubernetes: str | None) -> NodePlan:
    name = node.metadata.name
    seen = observed_node(
        node, dump.topologies.get(name), dump.configs.get(name), words=words, kubernetes=kubernetes
    )
    disk = node.status.capacity.get(STORAGE)
    return NodePlan(
        name=name,
        machine=seen.machine,
        config=seen.config,
        kubernetes=seen.kubernetes,
        labels=seen.labels,
        taints=seen.taints,
        ephemeral_storage_bytes=STORAGE_BYTES if disk is None else value(disk),
    )
