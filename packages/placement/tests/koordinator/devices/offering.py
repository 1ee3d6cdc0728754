"""Devices that a search is offered for a pod."""

from __future__ import annotations

from numakube.values.topology_policy import TopologyPolicy
from numakube_placement.koordinator.annotation_values import Arbiter
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.numa_search import DeviceOffer
from numakube_placement.koordinator.numa_supply import demand_of_pod
from numakube_placement.koordinator.placement_rule import PlacementRule
from numakube_placement.koordinator.pod_wish import DeviceWish, PodWish


def offer_of(ledger: NodeLedger, wish: DeviceWish) -> DeviceOffer:
    """Return what a pod that wants *wish* is offered on the node of *ledger*."""
    rule = PlacementRule(arbiter=Arbiter.SCHEDULER, policy=TopologyPolicy.SINGLE_NUMA_NODE)
    return DeviceOffer(ledger, demand_of_pod(PodWish(devices=wish), rule, ledger.capacity))
