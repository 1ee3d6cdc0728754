"""Devices that a search is offered for a pod."""

from __future__ import annotations

from numakube.koordinator.annotation_values import Arbiter
from numakube.koordinator.ledger.node_ledger import Ledger
from numakube.koordinator.placement_rule import Rule
from numakube.koordinator.search.device_offer import DeviceOffer
from numakube.koordinator.search.holder_demand import demand_of_pod
from numakube.koordinator.wish.pod_wish import DeviceWish, PodWish
from numakube.values.topology_policy import TopologyPolicy


def offer_of(ledger: Ledger, wish: DeviceWish) -> DeviceOffer:
    """Return what a pod that wants *wish* is offered on the node of *ledger*."""
    rule = Rule(arbiter=Arbiter.SCHEDULER, policy=TopologyPolicy.SINGLE_NUMA_NODE)
    return DeviceOffer(ledger, demand_of_pod(PodWish(devices=wish), rule, ledger.capacity))
