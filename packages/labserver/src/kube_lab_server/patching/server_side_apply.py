"""Server-side apply, and the book-keeping that it needs of every other write.

Who last set a field owns it. An update takes ownership of what it changes; an apply owns what its
configuration mentions, conflicts with others over values that differ, and removes what its manager
applied last time, applies no longer and no other manager owns. All of it follows Kubernetes 1.35,
except that an object has the same fields in every version of its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kube_lab_server.patching.field_changes import (
    ApplyConflict,
    Comparison,
    allowed_conflicts,
    compare,
    compare_created,
    field_set,
    require_no_conflict,
    with_last_applied,
    with_named_fields,
)
from kube_lab_server.patching.field_sets import (
    FieldSet,
    difference,
    intersection,
    of_paths,
    recursive_difference,
    touches,
    union,
)
from kube_lab_server.patching.json_patch import MalformedPatch, PatchFailure
from kube_lab_server.patching.managed_fields import (
    MAX_UPDATERS,
    UPDATE,
    MalformedManagedFields,
    Manager,
    ManagerFields,
    Shares,
    cap_updaters,
    decode,
    encode,
    entries_of,
    in_order,
    manager_of,
    readable,
)
from kube_lab_server.patching.typed_values import merge, remove, require_valid, same_value
from kube_lab_server.schema.go_decoding import check_converted

if TYPE_CHECKING:
    from collections.abc import Collection

    from kube_lab_server.kind_names import GVK
    from kube_lab_server.schema.types import Struct

_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_UNKNOWN_MANAGER: Final = "unknown"

# No manager owns these: they are the server's, or name the object.
_UNOWNED: Final = of_paths(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteEndpoint:
    """Where a write comes in.

    Attributes:
        gvk: the kind and version that the client used.
        root: its type.
        empty: an object of the kind in which nothing is set: ``canonical({})`` of a built-in kind,
            kind and version alone of a custom one.
        subresource: ``status`` or the like; empty for the object itself.
        ignored: fields that the endpoint resets whatever the client sends, such as the status.
        versions: API versions that the kind is served in; entries of others are dropped. None keeps
            all.
    """

    gvk: GVK
    root: Struct
    empty: dict[str, Any]
    subresource: str = ""
    ignored: FieldSet
    versions: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of an apply: the object, with its ``managedFields``, and whether it is another."""

    object: dict[str, Any]
    changed: bool


def track_update(
    live: dict[str, Any] | None,
    new: dict[str, Any],
    *,
    endpoint: WriteEndpoint,
    manager: str,
    now: str,
) -> list[dict[str, Any]]:
    """Return the ``managedFields`` of *new*, with which *manager* replaces *live*.

    Args:
        live: the stored object; None if *new* is created.
        new: what shall be stored, defaulted, before the server changes anything in it by itself.
        endpoint: where the request came in.
        manager: the name of the client.
        now: the time, in RFC 3339.
    """
    entries = _entries_to_start_from(live, new, endpoint)
    if not entries and live is not None:
        return []
    actor = Manager(
        manager or _UNKNOWN_MANAGER, UPDATE, endpoint.gvk.api_version, endpoint.subresource
    )
    changes = _changes(endpoint.empty if live is None else live, new, endpoint)
    if not entries:
        return encode(_credited({}, changes, actor=actor, endpoint=endpoint, now=now))
    kept = [] if live is None else _unconcerned(live, entries, changes, actor, endpoint)
    shares = decode(entry for entry in entries if not any(entry is one for one in kept))
    shares = _credited(shares, changes, actor=actor, endpoint=endpoint, now=now)
    return in_order([*kept, *entries_of(cap_updaters(shares))])


def _unconcerned(
    live: dict[str, Any],
    entries: list[dict[str, Any]],
    changes: Comparison,
    actor: Manager,
    endpoint: WriteEndpoint,
) -> list[dict[str, Any]]:
    """Return the entries of *live* that stay as they are, which need not be decoded."""
    if entries is not live["metadata"].get("managedFields") or len(entries) >= MAX_UPDATERS:
        return []
    if endpoint.versions is not None:
        return []
    changed = changes.all
    return [
        entry
        for entry in entries
        if manager_of(entry) != actor and not touches(entry.get("fieldsV1") or {}, changed)
    ]


def apply(
    live: dict[str, Any] | None,
    config: dict[str, Any],
    *,
    endpoint: WriteEndpoint,
    manager: str,
    now: str,
    force: bool = False,
) -> Applied:
    """Apply *config* to *live*, or create an object from it if *live* is None.

    Raises:
        ApplyConflict: others own fields that would change, and *force* is not given.
        MalformedPatch: the configuration cannot be meant for this endpoint.
        PatchFailure: the configuration does not fit its type.
    """
    _check_config(config, endpoint)
    current = endpoint.empty if live is None else live
    try:
        shares = decode((current.get("metadata") or {}).get("managedFields"))
    except MalformedManagedFields as error:
        raise PatchFailure(f"failed to decode managed fields: {error}") from error
    current = _without_managed_fields(current)
    if not shares:
        first = Manager(_BEFORE_FIRST_APPLY, UPDATE, endpoint.gvk.api_version, endpoint.subresource)
        shares = _updated(endpoint.empty, current, shares, actor=first, endpoint=endpoint, now=now)
    actor = Manager.applier(manager, endpoint.subresource)
    try:
        merged, shares = _applied(
            current, config, shares, actor=actor, endpoint=endpoint, force=force
        )
    except ApplyConflict as conflict:
        allowed = allowed_conflicts(conflict, current, manager=manager, endpoint=endpoint)
        if not allowed:
            raise
        merged, shares = _applied(
            current, config, shares, actor=actor, endpoint=endpoint, force=True
        )
    changed = not same_value(merged, current)
    if changed:
        _check_convertible(merged, config, endpoint)
    if changed and actor in shares:
        shares[actor] = shares[actor]._replace(time=now)
    result = with_last_applied(merged if changed else current, config, manager)
    return Applied(with_managed_fields(result, encode(shares)), changed)


def _check_config(config: dict[str, Any], endpoint: WriteEndpoint) -> None:
    if type(endpoint.gvk).of(config) != endpoint.gvk:
        group, version, kind = type(endpoint.gvk).of(config)
        raise MalformedPatch(f"invalid object type: {group}/{version}, Kind={kind}")
    metadata = config.get("metadata") or {}
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise MalformedPatch("metadata.managedFields must be nil")
    try:
        require_valid(endpoint.root, config)
    except PatchFailure as failure:
        raise PatchFailure(
            f"failed to create typed patch object ({_described(config, endpoint)}): {failure}"
        ) from None


def _check_convertible(
    merged: dict[str, Any], config: dict[str, Any], endpoint: WriteEndpoint
) -> None:
    """Raise if a built-in type cannot take a value, such as a malformed quantity."""
    if not endpoint.root.openapi:
        return
    problem = check_converted(merged, endpoint.root, strict=False).fatal
    if problem is not None:
        described = _described(config, endpoint)
        kind = described.partition("; ")[2]
        raise PatchFailure(
            f"failed to convert new object ({described}) to proper version: "
            f"unable to convert unstructured object to {kind}: {problem}"
        )


def _described(config: dict[str, Any], endpoint: WriteEndpoint) -> str:
    metadata = config.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    gvk = endpoint.gvk
    return (
        f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; "
        f"{gvk.group}/{gvk.version}, Kind={gvk.kind}"
    )


def _entries_to_start_from(
    live: dict[str, Any] | None, new: dict[str, Any], endpoint: WriteEndpoint
) -> list[dict[str, Any]]:
    """Return the entries that the client sent, or else those of the stored object.

    A list with nothing in it, or with one empty entry, asks to forget them all.
    """
    entries = ((live or {}).get("metadata") or {}).get("managedFields")
    sent = (new.get("metadata") or {}).get("managedFields")
    if endpoint.subresource or sent is entries:
        return readable(entries)
    if sent in ([], [{}]):
        return []
    return readable(sent) or readable(entries)


def _updated(
    live: dict[str, Any],
    new: dict[str, Any],
    shares: Shares,
    *,
    actor: Manager,
    endpoint: WriteEndpoint,
    now: str,
) -> Shares:
    """Let *actor* own what differs between *live* and *new*, and take it from all others."""
    changes = _changes(live, new, endpoint)
    return _credited(shares, changes, actor=actor, endpoint=endpoint, now=now)


def _changes(live: dict[str, Any], new: dict[str, Any], endpoint: WriteEndpoint) -> Comparison:
    """Return what differs between *live* and *new*, and is not reset anyway.

    Nothing changes hands if an object does not fit its type: whether it may be stored is for
    others to check.
    """
    look = compare_created if live is endpoint.empty and endpoint.root.openapi else compare
    try:
        return look(
            endpoint.root, _without_managed_fields(live), _without_managed_fields(new)
        ).without(endpoint.ignored)
    except PatchFailure:
        return Comparison()


def _credited(
    shares: Shares, changes: Comparison, *, actor: Manager, endpoint: WriteEndpoint, now: str
) -> Shares:
    """Let *actor* own what changed, and take it from all others."""
    shares = _without_changed(_known(shares, endpoint), changes, spared=None)
    taken = difference(union(changes.added, changes.modified), _UNOWNED)
    if not taken:
        return shares
    previous = shares[actor].fields if actor in shares else {}
    return {
        **shares,
        actor: ManagerFields(union(taken, previous), endpoint.gvk.api_version, now),
    }


def _known(shares: Shares, endpoint: WriteEndpoint) -> Shares:
    if endpoint.versions is None:
        return dict(shares)
    return {m: s for m, s in shares.items() if s.api_version in endpoint.versions}


def _without_changed(shares: Shares, changes: Comparison, *, spared: Manager | None) -> Shares:
    """Take what changed from everybody but *spared*; who owns nothing any more is forgotten."""
    left = {
        manager: share
        if manager == spared
        else share._replace(fields=difference(share.fields, changes.all))
        for manager, share in shares.items()
    }
    return {manager: share for manager, share in left.items() if share.fields}


def _applied(
    live: dict[str, Any],
    config: dict[str, Any],
    shares: Shares,
    *,
    actor: Manager,
    endpoint: WriteEndpoint,
    force: bool,
) -> tuple[dict[str, Any], Shares]:
    """Return the merged object and who owns what of it."""
    root = endpoint.root
    shares = _known(shares, endpoint)
    last = shares.get(actor)
    owned = recursive_difference(field_set(root, config), endpoint.ignored)
    shares[actor] = ManagerFields(owned, endpoint.gvk.api_version, last.time if last else None)
    merged = merge(root, live, config)
    if last is not None and last.fields:
        merged = _pruned(root, merged, shares, last.fields)
    changes = compare(root, live, merged).without(endpoint.ignored)
    if not force:
        require_no_conflict(shares, changes, actor)
    shares = _without_changed(shares, changes, spared=actor)
    if actor in shares:
        left = difference(shares[actor].fields, _UNOWNED)
        shares[actor] = shares[actor]._replace(fields=left)
        if not left:
            del shares[actor]
    return merged, shares


def _pruned(root: Struct, merged: dict[str, Any], shares: Shares, last: FieldSet) -> dict[str, Any]:
    """Remove what was applied last time and has no owner now."""
    last = with_named_fields(last, root)
    pruned = remove(root, merged, last) or {}
    managed: FieldSet = {}
    for share in shares.values():
        managed = union(managed, share.fields)
    present = with_named_fields(field_set(root, merged), root)
    kept = with_named_fields(field_set(root, pruned), root)
    owned = union(kept, with_named_fields(managed, root))
    pruned = remove(root, merged, difference(present, owned)) or {}
    # What has no owner but was never applied by this manager must stay.
    kept = with_named_fields(field_set(root, pruned), root)
    doomed = intersection(difference(present, kept), last)
    return dict(remove(root, merged, doomed) or {})


def _without_managed_fields(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}


def with_managed_fields(obj: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return *obj* with *entries* as its ``managedFields``; without any if there are none."""
    bare = _without_managed_fields(obj)
    if not entries:
        return bare
    return {**bare, "metadata": {**(bare.get("metadata") or {}), "managedFields": entries}}


def keep_times(live: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return *new* with the times of *live* if nothing else differs: the write does nothing."""
    before = (live.get("metadata") or {}).get("managedFields") or []
    after = (new.get("metadata") or {}).get("managedFields") or []
    if len(before) != len(after) or _timeless(before) != _timeless(after):
        return new
    if not same_value(_without_managed_fields(live), _without_managed_fields(new)):
        return new
    return with_managed_fields(new, before)


def _timeless(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in entry.items() if k != "time"} for entry in entries]
