"""How plugins come into being: by name, from their arguments and a handle on their surroundings.

Ours and those of users are made the same way. A package offers plugins by entry points of the group
`ENTRY_POINTS`, whose objects are factories; the processes load them and add them to the registry.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_origin,
)

import msgspec

from numakube.api.scheduler_config import (
    LATER_POINTS,
    KubeSchedulerConfiguration,
    PluginConfig,
    Plugins,
)
from numakube.errors import ConfigError
from numakube.scheduling.framework import plugins as points
from numakube.scheduling.framework.plugins import Nominations, Plugin
from numakube.scheduling.snapshot.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

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


METRICS: Final = Service[Any]("metrics")
"""The `prometheus_client.CollectorRegistry` of a process that serves its figures."""


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


# ------------------------------------------------------------------------------------------------
# The plugins of one scheduler name, by extension point and in order.

P = TypeVar("P", bound="Plugin")

POINTS: Mapping[str, tuple[type[Plugin], ...]] = {
    "preEnqueue": (points.PreEnqueue,),
    "queueSort": (points.QueueSort,),
    "preFilter": (points.PreFilter,),
    "filter": (points.Filter, points.VectorFilter),
    "postFilter": (points.PostFilter,),
    "preScore": (points.PreScore,),
    "score": (points.Score, points.VectorScore),
    "confirm": (points.Confirm,),
    "reserve": (points.Reserve,),
    "permit": (points.Permit,),
    "preBind": (points.PreBind,),
    "bind": (points.Bind,),
    "postBind": (points.PostBind,),
}
"""Extension points as a KubeSchedulerConfiguration names them; ``confirm`` is ours."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What pods with one ``schedulerName`` are scheduled by.

    Attributes:
        points: instances by extension point, in the order in which they are asked.
        weights: factor of each scoring plugin's normalised scores.
    """

    scheduler_name: str
    points: Mapping[str, tuple[Plugin, ...]]
    weights: Mapping[str, int] = field(default_factory=dict)

    def at(self, kind: type[P]) -> tuple[P, ...]:
        """Return the plugins at the extension point of class *kind*."""
        name = next(name for name, kinds in POINTS.items() if kind in kinds)
        return tuple(point for point in self.points.get(name, ()) if isinstance(point, kind))

    def plugins(self) -> dict[str, Plugin]:
        """Return every plugin by name."""
        return {member.name: member for members in self.points.values() for member in members}


def profile_of(
    scheduler_name: str, plugins: Iterable[Plugin], weights: Mapping[str, int] | None = None
) -> Profile:
    """Return a profile in which each plugin takes part wherever it can, in the given order."""
    members = tuple(plugins)
    by_point = {
        name: tuple(member for member in members if isinstance(member, kinds))
        for name, kinds in POINTS.items()
    }
    if len(by_point["queueSort"]) > 1:
        names = ", ".join(plugin.name for plugin in by_point["queueSort"])
        raise ConfigError(f"profile {scheduler_name}: only one plugin can sort the queue: {names}")
    return Profile(scheduler_name, by_point, weights or {})


# ------------------------------------------------------------------------------------------------
# Fields of a configuration that do not exist: usually a slip of the pen.
#
# kube-scheduler refuses a file with unknown fields, and so do we: a setting that is ignored in
# silence is found when it hurts.

_LATER: Final = (
    "there is no such extension point here: GangScheduling decides for whole groups of pods"
)


def unknown_fields(
    tree: object,
    type_: Any = KubeSchedulerConfiguration,  # noqa: ANN401 - any annotation
    *,
    unused: Mapping[type, Collection[str]] = MappingProxyType({}),
    opaque: Collection[type] = (),
) -> Iterator[str]:
    """Yield what is wrong with each field of *tree* that does not exist, with its path.

    Args:
        tree: a document.
        type_: what it is to become.
        unused: fields that exist although their type does not have them.
        opaque: types whose fields are not looked at.
    """
    yield from _Walk(unused, opaque).walk(tree, type_, "")


class _Walk:
    """Looks at documents with their types."""

    def __init__(self, unused: Mapping[type, Collection[str]], opaque: Collection[type]) -> None:
        self._unused, self._opaque = unused, opaque

    def walk(self, tree: object, type_: Any, path: str) -> Iterator[str]:  # noqa: ANN401
        """Yield what is wrong below *path*."""
        origin, inside = get_origin(type_), get_args(type_)
        if origin is tuple and isinstance(tree, list):
            for position, one in enumerate(tree):
                yield from self.walk(one, inside[0], f"{path}[{position}]")
        elif origin is dict and isinstance(tree, dict):
            for key, one in tree.items():
                yield from self.walk(one, inside[1], f"{path}[{key}]")
        elif origin is UnionType and isinstance(tree, dict):
            struct = next((one for one in inside if one not in (NoneType, str)), None)
            yield from self.walk(tree, struct, path)
        elif isinstance(tree, dict) and _is_struct(type_) and type_ not in self._opaque:
            yield from self._fields(tree, type_, path)

    def _fields(
        self, tree: dict[str, Any], type_: type[msgspec.Struct], path: str
    ) -> Iterator[str]:
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
        allowed = fields.keys() | set(self._unused.get(type_, ()))
        for name, value in tree.items():
            where = f"{path}.{name}" if path else name
            if type_ is Plugins and name in LATER_POINTS:
                # kube-scheduler writes empty sets, too.
                yield from (f"{where}: {_LATER}",) if value else ()
            elif name not in allowed:
                near = difflib.get_close_matches(name, allowed, n=1)
                yield f"{where}: unknown field" + (f" (is {near[0]} meant?)" if near else "")
            elif type_ is not PluginConfig and name in fields:
                # Arguments are read by their plugins.
                yield from self.walk(value, fields[name], where)


def _is_struct(type_: Any) -> bool:  # noqa: ANN401 - any annotation
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)
