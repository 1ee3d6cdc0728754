"""A cluster in a file: a bundle, or a dump as ``kubectl get KINDS -A -o yaml`` prints it.

A dump has the kinds that were asked for and no others. What follows is told so, once, and takes the
rest for absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.yaml_text import load_manifests
from numakube.apps.bundle import unpack
from numakube.apps.gathering import LISTED
from numakube.errors import MalformedObject
from numakube.insight.collected import (
    ERRORS,
    NODES,
    OTHER_KINDS,
    Collected,
    list_file,
    list_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_GZIP: Final = b"\x1f\x8b"
_NAMES: Final = {
    (resource.group, resource.kind): list_name(resource.plural, resource.group)
    for resource in LISTED
}


def read_cluster(content: bytes, name: str) -> Collected:
    """Return what is in the file *name*.

    Raises:
        MalformedObject: it is neither a bundle nor a dump with nodes.
    """
    if content.startswith(_GZIP):
        return unpack(content, name=name)
    try:
        documents = load_manifests(content.decode(), name)
    except (UnicodeDecodeError, MalformedObject):
        raise _neither(name) from None
    return collected_of(documents, name)


def collected_of(documents: Iterable[Mapping[str, Any]], name: str) -> Collected:
    """Return what the objects of a dump tell; those of kinds that no tool reads are passed over.

    Raises:
        MalformedObject: there are no nodes among them.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for document in documents:
        group = str(document.get("apiVersion", "")).rpartition("/")[0]
        listed = _NAMES.get((group, str(document.get("kind"))))
        if listed is not None:
            found.setdefault(listed, []).append(document)
    if NODES not in found:
        raise MalformedObject(name, "has no objects of kind Node")
    files = {list_file(one): msgspec.json.encode({"items": all_}) for one, all_ in found.items()}
    only = {"what": OTHER_KINDS, "why": f"{name} has {', '.join(sorted(found))} alone"}
    return Collected("", {**files, ERRORS: msgspec.json.encode([only])})


def _neither(name: str) -> MalformedObject:
    return MalformedObject(
        name,
        "neither a bundle (kubectl numa bundle) nor a dump of a cluster (kubectl get"
        " nodes,pods,noderesourcetopologies -A -o yaml)",
    )
