"""What the server itself writes into an object's metadata.

Who manages which fields: keeps ``metadata.managedFields`` up to date.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kube_lab_server.patching import WriteEndpoint, reset_fields, track_update, with_managed_fields
from kube_lab_server.wire.refusals import bad_request

if TYPE_CHECKING:
    from random import Random

    from kube_lab_server.catalogue.resource_rules import Rules
    from kube_lab_server.handling.call import Call, ServerState
    from kube_lab_server.kind_names import GVK, Json
    from kube_lab_server.wire.request_options import WriteOptions


_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_MAX_PREFIX: Final = 63 - _SUFFIX_LENGTH

# What a client cannot set when it creates an object.
_SYSTEM_FIELDS: Final = (
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "uid",
    "selfLink",
)


def timestamp(moment: datetime) -> str:
    """Return *moment* as metadata shows it."""
    return _text_of(moment.timestamp() // 1)


@lru_cache(maxsize=16)
def _text_of(second: float) -> str:
    """Many writes fall in one second."""
    return f"{datetime.fromtimestamp(second, UTC).isoformat()[:19]}Z"


def generate_name(prefix: str, rng: Random) -> str:
    """Return a name that starts with *prefix*, or with as much of it as fits."""
    suffix = "".join(rng.choice(_SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))
    return prefix[:_MAX_PREFIX] + suffix


def new_uid(rng: Random) -> str:
    """Return a random (version 4) uid."""
    bits = f"{rng.getrandbits(128):032x}"
    variant = "89ab"[int(bits[16], 16) % 4]
    return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-{variant}{bits[17:20]}-{bits[20:]}"


def metadata_of(obj: Json) -> Json:
    """Return the metadata of *obj*, empty if it has none."""
    return obj.get("metadata") or {}


def with_metadata(obj: Json, **changes: object) -> Json:
    """Return *obj* with metadata fields set, or removed where the value is None."""
    metadata = {**metadata_of(obj), **changes}
    if None in metadata.values():
        metadata = {k: v for k, v in metadata.items() if v is not None}
    return {**obj, "metadata": metadata}


def wiped(obj: Json) -> Json:
    """Return *obj* without the metadata that only the server sets."""
    return with_metadata(obj, **dict.fromkeys(_SYSTEM_FIELDS))


_DUPLICATE_OWNERS: Final = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in "
    "1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate "
    "UID(s) observed: {}"
)


def dedupe_owners(call: Call, obj: Json, *, late: bool = False) -> Json:
    """Return *obj* without owners that are listed twice, and warn of them.

    *late* tells that admission has seen the object already: so it is with patches.
    """
    owners = metadata_of(obj).get("ownerReferences") or []
    unique = [owner for index, owner in enumerate(owners) if owner not in owners[:index]]
    if len(unique) == len(owners):
        return obj
    doubled = dict.fromkeys(o["uid"] for i, o in enumerate(owners) if o in owners[:i])
    when = " after mutating admission happens" if late else ""
    call.warnings.append(_DUPLICATE_OWNERS.format(when, ", ".join(doubled)))
    return with_metadata(obj, ownerReferences=unique)


def in_namespace(obj: Json, namespace: str) -> Json:
    """Return *obj* in the request's namespace; refuse one that says it is in another.

    An empty *namespace* is that of a cluster-wide resource.
    """
    stated = metadata_of(obj).get("namespace") or ""
    if stated and namespace and stated != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return with_metadata(obj, namespace=namespace or None)


def endpoint_of(call: Call) -> WriteEndpoint:
    """Return where the request comes in."""
    custom = call.resource.custom
    has_status = custom and call.resource.subresource("status") is not None
    return _endpoint(call.rules, call.resource.kind, call.info.subresource, has_status)


@lru_cache(maxsize=1024)
def _endpoint(rules: Rules, kind: GVK, part: str, custom_status: bool) -> WriteEndpoint:
    return WriteEndpoint(
        gvk=kind,
        root=rules.root,
        empty={"apiVersion": kind.api_version, "kind": kind.kind, **rules.empty()},
        subresource=part,
        ignored=reset_fields(kind, part, custom_status=custom_status),
    )


def manager_of(call: Call, options: WriteOptions) -> str:
    """Return the name under which the request's changes are booked."""
    return options.field_manager or call.user_agent_manager


def track(
    state: ServerState, call: Call, live: Json | None, new: Json, options: WriteOptions
) -> Json:
    """Return *new* with what it changes of *live* credited to the request's manager."""
    entries = track_update(
        live,
        new,
        endpoint=endpoint_of(call),
        manager=manager_of(call, options),
        now=timestamp(state.now()),
    )
    return with_managed_fields(new, entries)
