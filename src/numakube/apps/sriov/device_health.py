"""Following the devices of a pool from scan to scan: who is there, who is not well, who is gone.

A device that was offered and is gone, has lost its driver, or is not selected any more stays in the
list as unhealthy for a while: pods that hold it get notice, and it comes back as itself. A network
interface that moves into a pod changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from numakube.kubelet.machine import Device

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.apps.sriov.config_types import Pool
    from numakube.apps.sriov.pci_discovery import Host, Inventory
    from numakube.apps.sriov.pool_assignment import Member

GONE: Final = "is gone"


@dataclass(frozen=True, slots=True)
class Standing:
    """A device of a pool, and how it is.

    Attributes:
        member: the device.
        trouble: why it cannot be given out; empty if it can.
        lost_at: since when it is not among what scans find; ``None`` if it is.
    """

    member: Member
    trouble: str = ""
    lost_at: float | None = None

    def as_device(self) -> Device:
        """Return it as the kubelet sees it."""
        return Device(self.member.id, self.member.numa_nodes, healthy=not self.trouble)


def follow(
    before: Mapping[str, Standing],
    found: Iterable[Member],
    reasons: Mapping[str, str],
    *,
    otherwise: str = GONE,
    now: float,
    forget_after: float,
) -> dict[str, Standing]:
    """Return the devices of a pool after a scan.

    Args:
        before: as they were.
        found: what the scan has found for the pool.
        reasons: why the pool does not have other devices, if it is known.
        otherwise: what is said of those of which it is not.
        now: seconds by some clock.
        forget_after: seconds after which a lost device is dropped.
    """
    after = {member.id: Standing(member) for member in found}
    for id_, standing in before.items():
        if id_ in after:
            continue
        lost_at = now if standing.lost_at is None else standing.lost_at
        if now - lost_at < forget_after:
            after[id_] = Standing(standing.member, reasons.get(id_, otherwise), lost_at)
    return dict(sorted(after.items(), key=lambda item: item[1].member.rank))


def examined(
    standings: Mapping[str, Standing],
    pool: Pool,
    inventory: Inventory,
    host: Host,
    *,
    check_link: bool,
) -> dict[str, Standing]:
    """Return the same with what is wrong with devices that are there."""
    links = check_link if pool.check_link is None else pool.check_link
    return {
        id_: replace(one, trouble=one.trouble or _trouble(one.member, inventory, host, links=links))
        for id_, one in standings.items()
    }


def _trouble(member: Member, inventory: Inventory, host: Host, *, links: bool) -> str:
    if member.static is not None:
        if not member.static.healthy:
            return "is configured as unhealthy"
        missing = [node.host_path for node in member.static.nodes if not host.has(node.host_path)]
        return f"{missing[0]} does not exist" if missing else ""
    if links and member.parent in inventory.down:
        candidate = member.candidate
        name = candidate.pf_name if candidate is not None else ""
        return f"physical function {name} ({member.parent}) has no link"
    return ""
