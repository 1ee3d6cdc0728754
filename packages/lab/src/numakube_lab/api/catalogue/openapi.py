"""OpenAPI v3 documents of what is served, made when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from numakube_lab.schema.custom.custom_type import CustomType
from numakube_lab.schema.openapi import (
    Route,
    builtin_schemas,
    custom_schemas,
    digest,
    document_path,
    openapi_document,
    openapi_index,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_lab.api.catalogue.served_resources import Registry, Served
    from numakube_lab.kinds import Json

_Contents = tuple[tuple[Route, CustomType | None], ...]


class _Document(NamedTuple):
    contents: _Contents
    text: Json
    digest: str


class OpenApi:
    """Documents by name, each kept until what it describes changes."""

    def __init__(self) -> None:
        self._documents: dict[str, _Document] = {}

    def index(self, registry: Registry) -> Json:
        """Return the document at ``/openapi/v3``."""
        digests = {name: self._document(name, held).digest for name, held in _all(registry)}
        return openapi_index(digests)

    def document(self, registry: Registry, name: str) -> Json | None:
        """Return the document at ``/openapi/v3/NAME``."""
        held = dict(_all(registry)).get(name)
        return self._document(name, held).text if held else None

    def _document(self, name: str, contents: _Contents) -> _Document:
        known = self._documents.get(name)
        if known is None or known.contents != contents:
            text = _write(contents)
            known = self._documents[name] = _Document(contents, text, digest(text))
        return known


def _write(contents: _Contents) -> Json:
    routes = [route for route, _ in contents]
    kinds = [route.kind for route in routes]
    kinds += [kind for route in routes for _, kind, _ in route.subresources]
    schemas: dict[str, Any] = builtin_schemas(kinds)
    custom = {info.gvk: info.schema.source for _, info in contents if info is not None}
    if custom:
        schemas |= custom_schemas(custom)
    return openapi_document(routes, schemas)


def _all(registry: Registry) -> Iterator[tuple[str, _Contents]]:
    """Yield the name and the contents of every document."""
    for group in [registry.group(""), *registry.groups()]:
        for version, resources in group.versions.items() if group else ():
            contents = tuple((_route(served), _custom(served)) for served in resources.values())
            if contents and group is not None:
                yield document_path(group.name, version), contents


def _route(served: Served) -> Route:
    resource = served.resource
    return Route(
        kind=resource.kind,
        plural=resource.plural,
        namespaced=resource.namespaced,
        verbs=resource.verbs,
        subresources=tuple((sub.name, sub.kind, sub.verbs) for sub in resource.subresources),
        custom=resource.custom,
    )


def _custom(served: Served) -> CustomType | None:
    info = getattr(served.rules, "info", None)
    return info if isinstance(info, CustomType) else None
