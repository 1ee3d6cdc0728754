"""Who manages which fields: keeps ``metadata.managedFields`` up to date."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from numakube_lab.api.handling.object_meta import timestamp
from numakube_lab.patching import Endpoint, reset_fields, track_update, with_managed_fields

if TYPE_CHECKING:
    from numakube_lab.api.catalogue.resource_rules import Rules
    from numakube_lab.api.handling.call import Call
    from numakube_lab.api.handling.server_state import State
    from numakube_lab.api.wire.request_options import WriteOptions
    from numakube_lab.kinds import GVK, Json


def endpoint_of(call: Call) -> Endpoint:
    """Return where the request comes in."""
    custom = call.resource.custom
    has_status = custom and call.resource.subresource("status") is not None
    return _endpoint(call.rules, call.resource.kind, call.info.subresource, has_status)


@lru_cache(maxsize=1024)
def _endpoint(rules: Rules, kind: GVK, part: str, custom_status: bool) -> Endpoint:
    return Endpoint(
        gvk=kind,
        root=rules.root,
        empty={"apiVersion": kind.api_version, "kind": kind.kind, **rules.empty()},
        subresource=part,
        ignored=reset_fields(kind, part, custom_status=custom_status),
    )


def manager_of(call: Call, options: WriteOptions) -> str:
    """Return the name under which the request's changes are booked."""
    return options.field_manager or call.user_agent_manager


def track(state: State, call: Call, live: Json | None, new: Json, options: WriteOptions) -> Json:
    """Return *new* with what it changes of *live* credited to the request's manager."""
    entries = track_update(
        live,
        new,
        endpoint=endpoint_of(call),
        manager=manager_of(call, options),
        now=timestamp(state.now()),
    )
    return with_managed_fields(new, entries)
