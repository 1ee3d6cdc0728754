"""How plugins come into being: by name, from their arguments and a handle on their surroundings.

Ours and those of users are made the same way. A package offers plugins by entry points of the group
`ENTRY_POINTS`, whose objects are factories; the processes load them and add them to the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.scheduling.framework.nominations import Nominations
from numakube.scheduling.framework.plugins import Plugin
from numakube.scheduling.snapshot.cluster import Cluster

if TYPE_CHECKING:
    from numakube.scheduling.framework.runtime import Runtime

ENTRY_POINTS: Final = "numakube.scheduling.plugins"


@dataclass(slots=True)
class Handle:
    """What a plugin may use of the scheduler that it is part of.

    Attributes:
        services: objects that the process offers by name, such as what writes to the API server;
            a plugin says which it needs.
        runtime: the plugins of the same profile; set once all of them have been made.
    """

    cluster: Cluster = field(default_factory=Cluster)
    nominations: Nominations = field(default_factory=Nominations)
    services: dict[str, object] = field(default_factory=dict)
    runtime: Runtime | None = None


Factory: TypeAlias = Callable[[Mapping[str, object], Handle], Plugin]
"""Makes a plugin from its ``pluginConfig`` arguments; raises `ConfigError` if they are wrong."""

Registry: TypeAlias = Mapping[str, Factory]
"""Factory by the name that a KubeSchedulerConfiguration uses."""
