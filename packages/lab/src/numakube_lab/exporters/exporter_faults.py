"""Exporters that hang, lag or lie, for tests of those who trust them.

A frozen exporter does nothing until it is thawed: its object grows old. A skewed one publishes
amounts that differ from the truth, or publishes late; the exact data is left out then, since it
would tell the truth.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from numakube.errors import ConfigError, InvalidValue
from numakube.values.quantity import value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.nrt import Zone, ZoneResource
    from numakube.apps.exporter.nrt_writer import Publisher, Written
    from numakube.apps.exporter.report import Report
    from numakube.apps.exporter.scan_wakeups import Cause
    from numakube.kube.clock import Clock


class Freezer:
    """Holds an exporter up until it is released."""

    def __init__(self) -> None:
        self._reasons: set[str] = set()
        self._open = asyncio.Event()
        self._open.set()

    @property
    def reasons(self) -> frozenset[str]:
        """Why it is held up; nothing if it is not."""
        return frozenset(self._reasons)

    def hold(self, reason: str) -> None:
        """Hold it up."""
        self._reasons.add(reason)
        self._open.clear()

    def let_go(self, reason: str) -> None:
        """Do not hold it up for this reason any more."""
        self._reasons.discard(reason)
        if not self._reasons:
            self._open.set()

    async def thawed(self) -> None:
        """Return as soon as nothing holds it up."""
        await self._open.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """How reports differ from the truth.

    Attributes:
        amounts: what is added to the available amount of resources, in every zone that has them.
        zone: the only zone to change; all of them if empty.
        delay: seconds by which reports are late.
    """

    amounts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    zone: str = ""
    delay: float = 0.0

    @property
    def is_straight(self) -> bool:
        """Whether it changes nothing."""
        return not self.amounts and not self.delay

    def applied(self, report: Report) -> Report:
        """Return what is published instead of *report*."""
        if not self.amounts:
            return report
        return replace(report, zones=tuple(map(self._zone, report.zones)), exact=None)

    def _zone(self, zone: Zone) -> Zone:
        if self.zone not in ("", zone.name):
            return zone
        return msgspec.structs.replace(zone, resources=tuple(map(self._resource, zone.resources)))

    def _resource(self, resource: ZoneResource) -> ZoneResource:
        if resource.name not in self.amounts:
            return resource
        true = value(resource.available)
        most = value(resource.allocatable)
        told = min(most, max(0, true + self.amounts[resource.name]))
        return msgspec.structs.replace(resource, available=str(told))


def parse_amounts(words: Mapping[str, str]) -> dict[str, int]:
    """Return amounts such as ``{"cpu": "-2", "memory": "1Gi"}`` in base units.

    Raises:
        ConfigError: one is not a whole quantity.
    """
    amounts = {}
    for name, text in words.items():
        try:
            amounts[name] = value(text)
        except InvalidValue as error:
            raise ConfigError(f"amount of {name}: {error}") from None
    return amounts


class SkewedPublisher:
    """Publishes what a `Skew` makes of reports."""

    def __init__(self, publisher: Publisher, clock: Clock) -> None:
        self._publisher = publisher
        self._clock = clock
        self.skew = Skew()

    async def publish(self, report: Report, *, cause: Cause, slept: float | None) -> Written:
        """Publish a report as it is skewed now."""
        skew = self.skew
        if skew.delay:
            await self._clock.sleep(skew.delay)
        return await self._publisher.publish(skew.applied(report), cause=cause, slept=slept)

    async def mark_stale(self, reason: str) -> Written:
        """Say that what was published must not be trusted."""
        return await self._publisher.mark_stale(reason)
