"""From NUMA nodes to what is given there: amounts, exact CPUs and devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.allotment.binding import bind_cpus, within_time
from numakube.allotment.holdings import Share
from numakube.allotment.refusals import Refusal, Why
from numakube.allotment.searching import too_little
from numakube.allotment.splitting import even_parts
from numakube.values.numamask import nodes_of
from numakube.values.resources import CPU, MILLI_PER_CPU

if TYPE_CHECKING:
    from numakube.allotment.device_offers import DeviceOffer
    from numakube.allotment.supply import Supply
    from numakube.values.numamask import NumaMask
    from numakube.values.resources import Amounts


@dataclass(frozen=True)
class Grant:
    """What one holder is given."""

    supply: Supply
    devices: DeviceOffer

    def on(self, mask: NumaMask) -> Share | Refusal:
        """Return what is given on the NUMA nodes *mask*."""
        everywhere = mask == self.supply.room.ledger.ground.all_zones
        given = self.devices.on(None if everywhere else mask)
        if isinstance(given, Refusal):
            return given
        zones = self._split(mask)
        if isinstance(zones, Refusal):
            return zones
        counts = {zone: part[CPU] // MILLI_PER_CPU for zone, part in zones.items() if CPU in part}
        cpus = self._cpus_by_zone(counts) if self.supply.need.cpus else 0
        if cpus is None:
            return self._too_few()
        return Share(cpus=cpus, zones=zones, mask=mask, devices=given)

    def anywhere(self) -> Share | Refusal:
        """Return what is given if no NUMA nodes are asked for: CPUs and devices."""
        given = self.devices.best
        if isinstance(given, Refusal):
            return given
        cpus = bind_cpus(self.supply, within_time(self.supply), self.supply.need.cpus)
        return self._too_few() if cpus is None else Share(cpus=cpus, devices=given)

    def _split(self, mask: NumaMask) -> dict[int, Amounts] | Refusal:
        zones: dict[int, dict[str, int]] = {}
        for name, amount in self.supply.need.amounts.items():
            available = self.supply.available[name]
            there = {zone: available[zone] for zone in nodes_of(mask)}
            parts = even_parts(there, amount, unit=self.supply.unit(name))
            if parts is None:
                return too_little(self.supply, name)
            for zone, part in parts.items():
                zones.setdefault(zone, {})[name] = part
        return {zone: zones[zone] for zone in sorted(zones)}

    def _cpus_by_zone(self, counts: dict[int, int]) -> int | None:
        of_zone = self.supply.room.ledger.ground.cpus_of_zone
        cpus = 0
        for zone, count in counts.items():
            part = bind_cpus(self.supply, self.supply.cpus & of_zone[zone], count)
            if part is None:
                return None
            cpus |= part
        return cpus

    def _too_few(self) -> Refusal:
        need = self.supply.need
        detail = f"{need.cpus} wanted, {self.supply.cpus.bit_count()} can be bound"
        detail += f" as {need.required}" if need.required else ""
        return Refusal(why=Why.TOO_FEW_CPUS, container=need.container, resource=CPU, detail=detail)
