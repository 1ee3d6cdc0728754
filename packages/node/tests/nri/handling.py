"""A plugin that notes what it hears, and gives the answers that it was given."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numakube.node.nri.nri_objects import (
    ContainerAdjustment,
    CpuLimits,
    NriContainer,
    Sandbox,
    Update,
)
from numakube.node.nri.nri_plugin import ConnectedRuntime, NriEvent, Session

POD = Sandbox(
    id="5a", uid="1-2", namespace="ns", name="web", labels={"a": "b"}, annotations={"c": "d"}
)
APP = NriContainer(id="c1", sandbox_id="5a", name="app", cpu=CpuLimits(quota=50000, period=100000))


@dataclass
class Noting:
    """A handler for tests; *others* go with every answer."""

    says: CpuLimits | None = None
    others: Sequence[Update] = ()
    updates: Sequence[Update] = ()
    hold: asyncio.Event | None = None
    runtime: ConnectedRuntime | None = None
    heard: list[tuple[Any, ...]] = field(default_factory=list)

    def configured(self, runtime: ConnectedRuntime) -> None:
        """Note the runtime."""
        self.runtime = runtime

    async def synchronized(
        self, pods: Sequence[Sandbox], containers: Sequence[NriContainer]
    ) -> Sequence[Update]:
        """Note what runs."""
        self.heard.append(("synchronized", list(pods), list(containers)))
        return self.updates

    async def creating(self, pod: Sandbox, container: NriContainer) -> ContainerAdjustment:
        """Note a container, and wait if told so."""
        self.heard.append(("creating", pod, container))
        if self.hold is not None:
            await self.hold.wait()
        return ContainerAdjustment(cpu=self.says, others=self.others)

    async def updating(
        self, pod: Sandbox, container: NriContainer, wanted: CpuLimits
    ) -> ContainerAdjustment:
        """Note what the kubelet wants."""
        self.heard.append(("updating", pod, container, wanted))
        return ContainerAdjustment(cpu=self.says, others=self.others)

    async def stopping(self, pod: Sandbox, container: NriContainer) -> Sequence[Update]:
        """Note that a container stops."""
        self.heard.append(("stopping", pod, container))
        return self.others

    def happened(self, event: NriEvent, pod: Sandbox, container: NriContainer | None) -> None:
        """Note an event."""
        self.heard.append((event, pod, container))


async def connect(socket: Path, handler: Noting) -> Session:
    """Return a session with a runtime."""
    reader, writer = await asyncio.open_unix_connection(socket)
    return Session(reader, writer, handler, name="numakube", index="90")
