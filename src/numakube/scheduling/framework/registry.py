"""How plugins come into being: by name, from their arguments and a handle on their surroundings.

Ours and those of users are made the same way. A package offers plugins by entry points of the group
`ENTRY_POINTS`, whose objects are factories; the processes load them and add them to the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast

from numakube.scheduling.framework.nominations import Nominations
from numakube.scheduling.framework.plugins import Plugin
from numakube.scheduling.snapshot.cluster import Cluster

if TYPE_CHECKING:
    from numakube.scheduling.framework.runtime import Runtime

ENTRY_POINTS: Final = "numakube.scheduling.plugins"

T = TypeVar("T")


@dataclass(frozen=True)  # Python 3.11 cannot call Service[T](...) if it has slots too
class Service(Generic[T]):
    """Names what plugins may use, and tells its type: ``Service[WaitingPods]("waiting-pods")``."""

    name: str


class Services:
    """What the process offers to plugins, and what plugins of several profiles share."""

    def __init__(self) -> None:
        self._offered: dict[str, Any] = {}

    def offer(self, service: Service[T], value: T) -> None:
        """Let plugins find *value* under *service*."""
        self._offered[service.name] = value

    def get(self, service: Service[T]) -> T | None:
        """Return what is offered under *service*."""
        return cast("T | None", self._offered.get(service.name))

    def shared(self, service: Service[T], make: Callable[[], T]) -> T:
        """Return what is offered under *service*, made by the first that asks."""
        known = self.get(service)
        if known is None:
            known = make()
            self.offer(service, known)
        return known


@dataclass(slots=True)
class Handle:
    """What a plugin may use of the scheduler that it is part of.

    Attributes:
        services: what the process offers, such as a client of the API server.
        profile: the name of the profile that the plugin is made for.
        runtime: the plugins of the same profile; set once all of them have been made.
    """

    cluster: Cluster = field(default_factory=Cluster)
    nominations: Nominations = field(default_factory=Nominations)
    services: Services = field(default_factory=Services)
    profile: str = ""
    runtime: Runtime | None = None


Factory: TypeAlias = Callable[[Mapping[str, object], Handle], Plugin]
"""Makes a plugin from its ``pluginConfig`` arguments; raises `ConfigError` if they are wrong."""

Registry: TypeAlias = Mapping[str, Factory]
"""Factory by the name that a KubeSchedulerConfiguration uses."""
