"""What others have added to objects that are the operator's alone.

Applying sets back what we mention and leaves what we do not. For configuration and for pods that is
too little: another key, container or host name is not ours and has an effect. The object's own
record of who has set what (``metadata.managedFields``) tells them from defaults, which no manager
has set. Labels and annotations are anybody's, and subresources have their own users.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numakube.kube.resource_types import Document

_OURS: Final = {
    "ConfigMap": ("data", "binaryData"),
    "Deployment": ("spec",),
    "DaemonSet": ("spec",),
}
"""The kinds whose content is ours alone, and where it is."""


def removal_of_additions(document: Document, manager: str) -> Document | None:
    """Return the merge patch that takes back what others than *manager* have added.

    Args:
        document: the object as the server has it.
        manager: our name as field manager.

    Returns:
        The patch, which fails if the object has changed since; ``None`` if there is nothing.
    """
    ours: Document = {}
    theirs: Document = {}
    for entry in document["metadata"].get("managedFields", ()):
        if not entry.get("subresource"):
            side = ours if entry.get("manager") == manager else theirs
            _merge(side, entry.get("fieldsV1") or {})
    patch: Document = {}
    for root in _OURS.get(document["kind"], ()):
        named = theirs.get(f"f:{root}")
        if named is not None and root in document:
            old = document[root]
            _note(patch, root, old, _without(old, named, ours.get(f"f:{root}", {})))
    if not patch:
        return None
    return {"metadata": {"resourceVersion": document["metadata"]["resourceVersion"]}, **patch}


def _merge(into: Document, fields: Document) -> None:
    for key, inner in fields.items():
        _merge(into.setdefault(key, {}), inner)


def _without(value: object, theirs: Document, ours: Document) -> object:
    """Return *value* without what *theirs* names and *ours* does not."""
    if isinstance(value, dict):
        return _fields_without(value, theirs, ours)
    if isinstance(value, list):
        kept = (_item_without(item, theirs, ours) for item in value)
        return [item for item in kept if item is not None]
    return value


def _fields_without(value: Document, theirs: Document, ours: Document) -> Document:
    kept: Document = {}
    for name, inner in value.items():
        key = f"f:{name}"
        if key not in theirs or name == "metadata":
            kept[name] = inner
        elif key in ours:
            kept[name] = _without(inner, theirs[key], ours[key])
    return kept


def _item_without(item: object, theirs: Document, ours: Document) -> object:
    """Return an item of a list, ``None`` if it is not ours at all."""
    for key, inner in theirs.items():
        if _is_named(item, key):
            return _without(item, inner, ours[key]) if key in ours else None
    return item


def _is_named(item: object, key: str) -> bool:
    """Tell whether *key* of a field set, ``k:{"name":"a"}`` or ``v:"a"``, is about *item*."""
    kind, _, text = key.partition(":")
    if kind == "k" and isinstance(item, dict):
        return all(item.get(name) == part for name, part in json.loads(text).items())
    return kind == "v" and bool(item == json.loads(text))


def _note(patch: Document, name: str, old: object, new: object) -> None:
    """Write into *patch* how *old* becomes *new*, which lacks some of it."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        if old != new:
            patch[name] = new
        return
    inner: Document = {key: None for key in old if key not in new}
    for key, kept in new.items():
        _note(inner, key, old[key], kept)
    if inner:
        patch[name] = inner
