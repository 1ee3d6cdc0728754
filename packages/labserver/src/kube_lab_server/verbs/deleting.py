"""Delete objects: at once, after a grace period, or when their finalizers are gone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from kube_lab_server.catalogue.resources import Orphaning
from kube_lab_server.custom.definitions import SHELF as DEFINITIONS
from kube_lab_server.custom.definitions import is_terminating, marked_for_deletion
from kube_lab_server.handling.body_decoding import KIND_UNKNOWN, read_body, unregistered
from kube_lab_server.handling.object_meta import metadata_of, timestamp, with_metadata
from kube_lab_server.handling.object_views import ListPage, document_reply, list_reply, object_reply
from kube_lab_server.kind_names import GVK
from kube_lab_server.schema.builtin_types import struct
from kube_lab_server.schema.go_decoding import check
from kube_lab_server.schema.jsontext import MalformedJson
from kube_lab_server.schema.protobuf import MalformedProtobuf, UnknownKind
from kube_lab_server.store.store import Stored
from kube_lab_server.verbs.admitting import validate_delete
from kube_lab_server.verbs.reading import list_objects
from kube_lab_server.wire.refusals import bad_request, conflict, not_found, target
from kube_lab_server.wire.request_options import DeleteOptions, delete_options, list_options
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from kube_lab_server.handling.call import Call, Reply, ServerState
    from kube_lab_server.kind_names import Json

_ORPHAN: Final = "orphan"
_FOREGROUND: Final = "foregroundDeletion"
_ORPHAN_WARNING: Final = (
    "child pods are preserved by default when jobs are deleted; set "
    "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress "
    "this warning"
)
_OPTIONS: Final = GVK("", "v1", "DeleteOptions")
_OPTIONS_TYPE: Final = struct("meta.v1", "DeleteOptions")
_OPTIONS_SCHEME: Final = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a deletion did: *gone* tells whether the object is no longer there."""

    stored: Stored
    gone: bool


def delete(state: ServerState, call: Call) -> Reply:
    """Handle the DELETE of one object."""
    options = delete_options(call.query, options_body(call))
    _warn_of_orphans(call, options)
    existing = state.find(call.resource, call.namespace, call.info.name)
    if existing is None:
        raise not_found(call.resource.group, call.resource.plural, call.info.name)
    deletion = delete_object(state, call, existing, options)
    status = 202 if not deletion.gone and options.orphan_dependents is False else 200
    if not deletion.gone or call.resource.habits.returns_deleted:
        return object_reply(call, status, deletion.stored)
    return document_reply(call, status, success(call, deletion.stored))


def delete_collection(state: ServerState, call: Call) -> Reply:
    """Handle the DELETE of a collection; the answer lists what was there before."""
    options = delete_options(call.query, options_body(call))
    _warn_of_orphans(call, options)
    listing = list_objects(state, call, list_options(call.query, watch=False))
    for item in listing.items:
        delete_object(state, call, item, options)
    return list_reply(call, ListPage(listing.items, listing.metadata))


def _warn_of_orphans(call: Call, options: DeleteOptions) -> None:
    """Warn of a default that surprises: a job leaves its pods behind."""
    undecided = options.propagation is None and options.orphan_dependents is None
    if call.resource.shelf == "batch/jobs" and undecided:
        call.warnings.append(_ORPHAN_WARNING)


def options_body(call: Call) -> Json | None:
    """Return the DeleteOptions that are sent as a body."""
    if not call.body:
        return None
    try:
        body = read_body(call, _OPTIONS).value
    except MalformedJson as error:
        raise bad_request(f"{KIND_UNKNOWN}: {error}") from None
    except UnknownKind as error:
        raise bad_request(unregistered(error.kind or _OPTIONS, _OPTIONS_SCHEME)) from None
    except MalformedProtobuf as error:
        raise bad_request(str(error)) from None
    if not isinstance(body, dict):
        return {}
    sent = GVK.of(body)
    if sent.kind not in ("", "DeleteOptions"):
        raise bad_request(unregistered(sent, _OPTIONS_SCHEME))
    problems = check(body, _OPTIONS_TYPE, strict=False)
    if problems.fatal is not None:
        raise bad_request(problems.fatal)
    return body


def success(call: Call, stored: Stored) -> Json:
    """Return the Status that tells of a deletion."""
    details = target(call.resource.group, call.resource.plural, stored.key.name)
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**details, "uid": stored.obj["metadata"]["uid"]},
    }


def delete_object(
    state: ServerState, call: Call, existing: Stored, options: DeleteOptions
) -> Deletion:
    """Delete *existing*, or mark it as being deleted."""
    if call.resource.shelf == "namespaces":
        return _delete_namespace(state, call, existing, options)
    if call.resource.shelf == DEFINITIONS and not is_terminating(existing.obj):
        return _delete_definition(state, call, existing, options)
    check_preconditions(call, existing, options)
    validate_delete(state, call, existing.obj)
    marked = _gracefully(state, existing.obj, options)
    if marked is _PENDING:
        return Deletion(existing, gone=False)
    obj = existing.obj if marked is None else marked
    finalizers = _finalizers(call, obj, options)
    obj = with_metadata(obj, finalizers=finalizers or None)
    if finalizers and marked is None:
        obj = _mark(obj, state.now())
    waits = finalizers or (marked is not None and obj["metadata"]["deletionGracePeriodSeconds"] > 0)
    if waits or marked is not None:
        existing = _store(state, existing, obj, options)
    if waits:
        return Deletion(existing, gone=False)
    if options.dry_run:
        return Deletion(existing, gone=True)
    return Deletion(state.store.remove(existing.key), gone=True)


def _delete_definition(
    state: ServerState, call: Call, existing: Stored, options: DeleteOptions
) -> Deletion:
    """Mark a definition as terminating: it goes when its objects are gone."""
    check_preconditions(call, existing, options)
    validate_delete(state, call, existing.obj)
    marked = marked_for_deletion(existing.obj, timestamp(state.now()))
    return Deletion(_store(state, existing, marked, options), gone=False)


def _delete_namespace(
    state: ServerState, call: Call, existing: Stored, options: DeleteOptions
) -> Deletion:
    """Let a namespace go, or mark it as terminating while something is to be cleaned up."""
    uid = options.preconditions.uid
    if uid is not None and uid != existing.obj["metadata"]["uid"]:
        raise _precondition_failed(call, uid, existing)
    version, actual = options.preconditions.resource_version, existing.obj["metadata"]
    if version is not None and version != actual["resourceVersion"]:
        why = (
            f"Precondition failed: ResourceVersion in precondition: {version}, "
            f"ResourceVersion in object meta: {actual['resourceVersion']}"
        )
        raise conflict(call.resource.group, call.resource.plural, existing.key.name, why)
    validate_delete(state, call, existing.obj)
    obj = existing.obj
    if not obj["metadata"].get("deletionTimestamp"):
        finalizers = _finalizers(call, obj, options)
        moment = timestamp(state.now())
        obj = with_metadata(obj, deletionTimestamp=moment, finalizers=finalizers or None)
        obj = {**obj, "status": {**obj.get("status", {}), "phase": "Terminating"}}
        existing = _store(state, existing, obj, options)
    if obj["metadata"].get("finalizers") or (obj.get("spec") or {}).get("finalizers"):
        return Deletion(existing, gone=False)
    if options.dry_run:
        return Deletion(existing, gone=True)
    return Deletion(state.store.remove(existing.key), gone=True)


_PENDING: Final[Json] = {}
"""Stands for "its deletion is under way and this request does not hasten it"."""


def check_preconditions(call: Call, existing: Stored, options: DeleteOptions) -> None:
    """Refuse if the object is not the one that the request means."""
    wanted, metadata = options.preconditions, existing.obj["metadata"]
    group, kind, name = call.resource.group, call.resource.kind.kind, existing.key.name
    if wanted.uid is not None and wanted.uid != metadata["uid"]:
        raise conflict(
            group,
            kind,
            name,
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated",
        )
    version = metadata["resourceVersion"]
    if wanted.resource_version is not None and wanted.resource_version != version:
        raise conflict(
            group,
            kind,
            name,
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match "
            f"the ResourceVersion in record ({version}). The object might have been modified",
        )


def _gracefully(state: ServerState, obj: Json, options: DeleteOptions) -> Json | None:
    """Return a pod marked for graceful deletion; None for objects that know no grace."""
    if obj.get("kind") != "Pod" or obj.get("apiVersion") != "v1":
        return None
    if metadata_of(obj).get("deletionTimestamp"):
        return _hasten(state, obj, options)
    period = grace_period(obj, options)
    return with_metadata(
        obj,
        deletionTimestamp=timestamp(state.now() + timedelta(seconds=period)),
        deletionGracePeriodSeconds=period,
        generation=_next_generation(obj),
    )


def grace_period(pod: Json, options: DeleteOptions) -> int:
    """Return for how long *pod* may shut down; none if nothing runs or it is over."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    period = options.grace_seconds
    if period is None:
        period = spec.get("terminationGracePeriodSeconds") or 0
    if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
        return 0
    return 1 if period < 0 else int(period)


def _hasten(state: ServerState, obj: Json, options: DeleteOptions) -> Json | None:
    """Shorten the grace period of a pod that is being deleted already."""
    metadata = obj["metadata"]
    current = metadata.get("deletionGracePeriodSeconds")
    if not current:
        return None
    period = options.grace_seconds
    if period is None:
        return _PENDING
    period = 1 if period < 0 else period
    if period >= current:
        return _PENDING
    moment = parse_time(metadata["deletionTimestamp"]) + timedelta(seconds=period - current)
    now = state.now()
    if moment < now:
        moment, period = now, min(period, 1)
    return with_metadata(
        obj, deletionTimestamp=timestamp(moment), deletionGracePeriodSeconds=period
    )


def _next_generation(obj: Json) -> int | None:
    generation = metadata_of(obj).get("generation")
    return generation + 1 if generation else None


def _mark(obj: Json, now: datetime) -> Json:
    """Return *obj* marked as waiting for its finalizers."""
    metadata = obj["metadata"]
    moment = metadata.get("deletionTimestamp")
    if moment is None:
        obj = with_metadata(obj, generation=_next_generation(obj))
    if moment is None or parse_time(moment) > now:
        moment = timestamp(now)
    return with_metadata(obj, deletionTimestamp=moment, deletionGracePeriodSeconds=0)


def _finalizers(call: Call, obj: Json, options: DeleteOptions) -> list[str]:
    """Return the finalizers that the deletion leaves: those of dependents as the options say."""
    current: list[str] = list(metadata_of(obj).get("finalizers") or ())
    kept = [name for name in current if name not in (_ORPHAN, _FOREGROUND)]
    policy = _propagation(call, current, options)
    if policy == "Orphan":
        kept.append(_ORPHAN)
    elif policy == "Foreground":
        kept.append(_FOREGROUND)
    return current if set(kept) == set(current) else kept


def _propagation(call: Call, finalizers: list[str], options: DeleteOptions) -> str:
    habit = call.resource.habits.orphaning
    if habit is Orphaning.UNSUPPORTED:
        return "Background"
    if options.orphan_dependents is not None:
        return "Orphan" if options.orphan_dependents else "Background"
    if options.propagation is not None:
        return options.propagation
    for name in finalizers:
        if name == _ORPHAN:
            return "Orphan"
        if name == _FOREGROUND:
            return "Foreground"
    return "Orphan" if habit is Orphaning.ORPHAN else "Background"


def _store(state: ServerState, existing: Stored, obj: Json, options: DeleteOptions) -> Stored:
    if obj == existing.obj:
        return existing
    if options.dry_run:
        return Stored(existing.key, obj, existing.version, existing.form)
    return state.store.put(existing.key, obj, form=existing.form)


def _precondition_failed(call: Call, uid: str, existing: Stored) -> Exception:
    """The object to be deleted is not the one with that uid."""
    actual = existing.obj["metadata"]["uid"]
    why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
    return conflict(call.resource.group, call.resource.plural, existing.key.name, why)
