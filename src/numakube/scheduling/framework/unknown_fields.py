"""Fields of a configuration that do not exist: usually a slip of the pen.

kube-scheduler refuses a file with unknown fields, and so do we: a setting that is ignored in
silence is found when it hurts.
"""

from __future__ import annotations

import difflib
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

import msgspec

from numakube.api.scheduler_config import (
    LATER_POINTS,
    KubeSchedulerConfiguration,
    PluginConfig,
    Plugins,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

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
