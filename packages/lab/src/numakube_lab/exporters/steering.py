"""Requests to freeze, thaw or skew exporters, as they come from other processes."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from numakube.errors import ConfigError, MalformedObject
from numakube_lab.exporters.exporter_faults import Skew, parse_amounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.exporters.exporter_pool import ExporterPool


def steer(exporters: ExporterPool, request: Mapping[str, Any]) -> dict[str, Any]:
    """Do what *request* says: ``action``, ``nodes`` and what the action needs.

    Raises:
        ConfigError: an action, a node or an amount that does not exist.
        MalformedObject: something else than a request.
    """
    nodes = request.get("nodes")
    if not isinstance(nodes, list) or not all(isinstance(name, str) for name in nodes):
        raise MalformedObject("request", "must be a list of node names", path="nodes")
    match request.get("action"):
        case "freeze":
            exporters.freeze(nodes)
        case "thaw":
            exporters.thaw(nodes)
        case "skew":
            exporters.skew(nodes, _skew(request))
        case action:
            raise ConfigError(f"unknown action {action!r} for exporters")
    return {"nodes": nodes}


def _skew(request: Mapping[str, Any]) -> Skew:
    try:
        words = {str(name): str(text) for name, text in dict(request.get("amounts") or {}).items()}
        delay = float(request.get("delay") or 0.0)
    except (TypeError, ValueError) as error:
        raise MalformedObject("request", f"cannot skew reports: {error}") from None
    return Skew(
        amounts=MappingProxyType(parse_amounts(words)),
        zone=str(request.get("zone") or ""),
        delay=delay,
    )
