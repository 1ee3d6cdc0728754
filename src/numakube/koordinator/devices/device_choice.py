"""Which devices a pod gets on given NUMA nodes.

Types that a pod wants placed together get devices that are as close to each other as can be
(`joint`); a pod may insist on the same PCIe switch. Others are chosen by the tree of devices
(`device_groups`).

A node that publishes no Device resource has devices that only its kubelet knows; nothing is given
away there, and nothing is refused. Templates of shared GPUs are not read: a pod that wants one is
placed as one that does not.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from numakube.koordinator.devices.device_groups import Left, pcie_of
from numakube.koordinator.devices.gpu_partitions import (
    must_be_partition,
    partition_refusal,
    takes_whole_gpus,
    ways_to_take,
)
from numakube.koordinator.devices.joint_devices import closeness_of, together
from numakube.koordinator.devices.wanted_devices import Want, wants_of
from numakube.koordinator.placement_refusals import Refusal, Why
from numakube.kubelet.device_connections import Closeness
from numakube.kubelet.device_pairs import WITHIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.koordinator.ledger.holdings import HeldDevice
    from numakube.koordinator.ledger.node_ledger import Ledger
    from numakube.koordinator.node.node_facts import DevicePlace, NodeFacts
    from numakube.koordinator.wish.pod_wish import DeviceWish
    from numakube.values.numamask import NumaMask

_PAIR: Final = 2


def allot_devices(
    ledger: Ledger,
    wish: DeviceWish,
    *,
    mask: NumaMask | None,
    container: str = "",
    taken: Sequence[HeldDevice] = (),
) -> tuple[HeldDevice, ...] | Refusal:
    """Return the devices that *wish* gets, or why it gets none.

    Args:
        ledger: what pods hold of the node.
        wish: what is wanted.
        mask: the NUMA nodes whose devices may be taken; ``None`` for all. Devices that are close to
            no NUMA node in particular may always be.
        container: whose part of the wish; empty for the pod as a whole.
        taken: what containers before it have been given in the same trial.
    """
    if not ledger.facts.devices and wish.closeness is None:
        return ()
    wants = _wants(ledger, wish, container)
    if isinstance(wants, Refusal):
        return wants
    given = _allot(wants, wish, _left(ledger, taken), ledger.facts, mask, container)
    if isinstance(given, Refusal):
        return given
    return _too_far(ledger, wish, given, taken, container) or given


def _wants(ledger: Ledger, wish: DeviceWish, container: str) -> tuple[Want, ...] | Refusal:
    requests = wish.by_container.get(container, {}) if container else wish.requests
    return wants_of(wish, requests, ledger.facts.devices)


def _left(ledger: Ledger, taken: Iterable[HeldDevice]) -> list[Left]:
    left = {
        (free.place.type, free.place.minor): Left(
            place=free.place, amounts=free.left, vfs=free.vfs, in_use=free.in_use
        )
        for free in ledger.free_devices
    }
    for held in taken:
        key = (held.type, held.minor)
        if key in left:
            left[key] = left[key].less(held)
    return list(left.values())


def _allot(
    wants: Sequence[Want],
    wish: DeviceWish,
    left: Sequence[Left],
    facts: NodeFacts,
    mask: NumaMask | None,
    container: str,
) -> tuple[HeldDevice, ...] | Refusal:
    near = [one for one in left if _is_within(one, mask)]
    offers = {want.type: _offers(want, near) for want in wants}
    for want in wants:
        if len(offers[want.type]) < want.count:
            return _too_few(want, near, offers[want.type], container)
    ways = partial(ways_to_take, near=near, left=left, facts=facts, wish=wish)
    for want in wants if must_be_partition(facts, wish) else ():
        if takes_whole_gpus(want) and next(ways(want, offers[want.type]), None) is None:
            return partition_refusal(want, facts, container)
    joint = [want for want in wants if want.type in wish.joint]
    given: list[HeldDevice] = []
    if len(joint) > 1:
        freely = not (takes_whole_gpus(joint[0]) and must_be_partition(facts, wish))
        chosen = together(joint, offers, ways, strictly=wish.same_pcie, freely=freely)
        if chosen is None:
            return _not_together(joint, container, strictly=wish.same_pcie)
        given += (one.given(want) for want, devices in chosen for one in devices)
        wants = [want for want in wants if want not in joint]
    for want in wants:
        alone = next(ways(want, offers[want.type]), None)
        if alone is None:
            return _not_in_scope(want, container)
        given += (one.given(want) for one in alone)
    return tuple(given)


def _is_within(one: Left, mask: NumaMask | None) -> bool:
    numa = one.place.numa
    return mask is None or numa is None or bool(mask >> numa & 1)


def _offers(want: Want, left: Sequence[Left]) -> list[Left]:
    offers = [one for one in left if one.offers(want)]
    if not want.alone_on_pcie:
        return offers
    used = {pcie_of(one.place) for one in left if one.in_use and one.place.type == want.type}
    return [one for one in offers if pcie_of(one.place) not in used]


def _too_few(want: Want, near: Sequence[Left], offers: Sequence[Left], container: str) -> Refusal:
    there = [one for one in near if one.place.type == want.type]
    ill = sum(not one.place.healthy for one in there)
    detail = f"{want.count} wanted, {len(offers)} of {len(there)} available"
    detail += f"; {ill} not healthy" if ill else ""
    return Refusal(why=Why.DEVICES, container=container, resource=want.type, detail=detail)


def _not_in_scope(want: Want, container: str) -> Refusal:
    detail = f"no {want.scope} has {want.count} of them to give"
    return Refusal(why=Why.DEVICES, container=container, resource=want.type, detail=detail)


def _too_far(
    ledger: Ledger,
    wish: DeviceWish,
    given: Sequence[HeldDevice],
    taken: Sequence[HeldDevice],
    container: str,
) -> Refusal | None:
    """Refuse devices that are farther apart than the pod allows.

    Where each container has devices of one type, those of all containers are paired.
    """
    if wish.closeness is None:
        return None
    alone = container and all(len(types) < _PAIR for types in wish.by_container.values())
    groups = _by_type(ledger, (*given, *taken) if alone else given)
    level = closeness_of(list(groups.values())) if len(groups) >= _PAIR else Closeness.SELF
    if level is not None and level <= WITHIN[wish.closeness]:
        return None
    kinds = " and ".join(groups)
    told = (
        f"not known how {kinds} are connected"
        if level is None
        else f"{kinds} would be {level.name}"
    )
    return Refusal(why=Why.CLOSENESS, container=container, detail=f"{wish.closeness}: {told}")


def _by_type(ledger: Ledger, given: Iterable[HeldDevice]) -> dict[str, list[DevicePlace]]:
    places = {(place.type, place.minor): place for place in ledger.facts.devices}
    groups: dict[str, list[DevicePlace]] = {}
    for held in given:
        groups.setdefault(held.type, []).append(places[held.type, held.minor])
    return groups


def _not_together(wants: Sequence[Want], container: str, *, strictly: bool) -> Refusal:
    kinds = " and ".join(want.type for want in wants)
    where = "behind one PCIe switch" if strictly else "as the pod wants them"
    detail = f"{kinds} are not available together {where}"
    return Refusal(
        why=Why.JOINT_DEVICES, container=container, resource=wants[0].type, detail=detail
    )
