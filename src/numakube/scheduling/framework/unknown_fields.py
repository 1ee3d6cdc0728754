"""Fields of a configuration that do not exist: usually a slip of the pen.

kube-scheduler refuses a file with unknown fields, and so do we: a setting that is ignored in
silence is found when it hurts.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

import msgspec

from numakube.api.scheduler_config import (
    ClientConnectionConfig,
    KubeSchedulerConfiguration,
    LeaderElectionConfig,
    PluginConfig,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNUSED: Final[dict[type, frozenset[str]]] = {
    KubeSchedulerConfiguration: frozenset(
        {"enableProfiling", "enableContentionProfiling", "delayCacheUntilActive",
         "healthzBindAddress", "metricsBindAddress"}
    ),
    ClientConnectionConfig: frozenset({"acceptContentTypes", "contentType"}),
    LeaderElectionConfig: frozenset(),
}  # fmt: skip
"""Fields of kube-scheduler's that mean nothing here, and are allowed."""


def unknown_fields(tree: object, type_: Any = KubeSchedulerConfiguration) -> Iterator[str]:  # noqa: ANN401
    """Yield what is wrong with each field of *tree* that does not exist, with its path."""
    yield from _walk(tree, type_, "")


def _walk(tree: object, type_: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - any annotation
    if get_origin(type_) is tuple and isinstance(tree, list):
        (item, *_) = get_args(type_)
        for position, one in enumerate(tree):
            yield from _walk(one, item, f"{path}[{position}]")
    elif get_origin(type_) is dict and isinstance(tree, dict):
        for key, one in tree.items():
            yield from _walk(one, get_args(type_)[1], f"{path}[{key}]")
    elif isinstance(type_, type) and issubclass(type_, msgspec.Struct) and isinstance(tree, dict):
        yield from _walk_struct(tree, type_, path)


def _walk_struct(tree: dict[str, Any], type_: type[msgspec.Struct], path: str) -> Iterator[str]:
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
    allowed = fields.keys() | _UNUSED.get(type_, frozenset())
    for name, value in tree.items():
        where = f"{path}.{name}" if path else name
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, n=1)
            yield f"{where}: unknown field" + (f" (is {near[0]} meant?)" if near else "")
        elif type_ is not PluginConfig and name in fields:
            # Arguments are read by their plugins.
            yield from _walk(value, fields[name], where)
