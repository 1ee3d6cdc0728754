"""Bind pods to nodes: the one change of a pod's node that is possible, and only once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.field_errors import FieldError, aggregate, not_supported, required
from numakube_lab.api.handling.body_decoding import decode_object
from numakube_lab.api.handling.object_meta import (
    in_namespace,
    metadata_of,
    timestamp,
    with_metadata,
)
from numakube_lab.api.handling.rendering import document_reply
from numakube_lab.api.store.store import Key, Stored
from numakube_lab.api.verbs.admission_policies import check_policies
from numakube_lab.api.verbs.updating import precondition_failed
from numakube_lab.api.wire.refusals import bad_request, conflict, failed, not_found
from numakube_lab.api.wire.request_options import write_options
from numakube_lab.kinds import GVK, Json

if TYPE_CHECKING:
    from datetime import datetime

    from numakube_lab.api.handling.call import Call, Reply
    from numakube_lab.api.handling.server_state import State

_BINDING = GVK("", "v1", "Binding")


def bind(state: State, call: Call) -> Reply:
    """Handle the POST of a binding, to a pod's subresource or to the collection."""
    options = write_options(call.query, kind="CreateOptions")
    binding = decode_object(call, options, _BINDING, state.rules_of(_BINDING))
    binding = in_namespace(binding, call.namespace)
    metadata = metadata_of(binding)
    name = call.info.name or metadata.get("name") or ""
    if not name:
        raise bad_request("Name parameter required.")
    if metadata.get("name", "") != name:
        raise bad_request("name in URL does not match name in Binding object")
    if errors := _check(binding):
        raise failed(aggregate(errors))
    check_policies(state, call, binding, None, "CREATE")
    _assign(state, call, name, binding, dry_run=options.dry_run)
    return document_reply(call, 201, success_status())


def success_status() -> Json:
    """Return the Status that tells that something was created of which nothing is shown."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }


def _check(binding: Json) -> list[FieldError]:
    target = binding.get("target") or {}
    errors = []
    if target.get("kind") not in (None, "", "Node"):
        errors.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    return errors


def _assign(state: State, call: Call, name: str, binding: Json, *, dry_run: bool) -> None:
    stored = state.store.get(Key("pods", call.namespace, name))
    if stored is None:
        raise not_found("", "pods", name)
    pod, wanted = stored.obj, metadata_of(binding)
    _check_preconditions(state, stored, wanted)
    if why := _unassignable(pod):
        raise conflict("", "pods/binding", name, why)
    metadata = pod["metadata"]
    annotations = {**metadata.get("annotations", {}), **wanted.get("annotations", {})}
    labels = {**metadata.get("labels", {}), **wanted.get("labels", {})}
    pod = with_metadata(pod, annotations=annotations or None, labels=labels or None)
    pod = {**pod, "spec": {**pod["spec"], "nodeName": binding["target"]["name"]}}
    pod = with_condition(pod, {"type": "PodScheduled", "status": "True"}, state.now())
    pod["status"].pop("nominatedNodeName", None)
    if not dry_run:
        state.store.put(stored.key, pod)


def _check_preconditions(state: State, stored: Stored, wanted: Json) -> None:
    pods = state.registry.find("", "v1", "pods")
    assert pods is not None  # noqa: S101 - a built-in resource
    metadata = stored.obj["metadata"]
    for what, member in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
        asked, actual = wanted.get(member), metadata[member]
        if asked and asked != actual:
            raise precondition_failed(pods.resource, stored.key[1:], asked, actual, what)


def _unassignable(pod: Json) -> str:
    """Return why *pod* cannot be bound."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def with_condition(pod: Json, condition: Json, now: datetime) -> Json:
    """Return *pod* with *condition* set; its time changes only if its status does."""
    status = dict(pod.get("status") or {})
    conditions = [dict(item) for item in status.get("conditions") or ()]
    for index, item in enumerate(conditions):
        if item["type"] == condition["type"]:
            same = item.get("status") == condition["status"]
            since = item.get("lastTransitionTime") if same else timestamp(now)
            conditions[index] = {
                "lastProbeTime": None,
                "lastTransitionTime": since,
                **condition,
            }
            break
    else:
        fresh = {"lastProbeTime": None, "lastTransitionTime": timestamp(now)}
        conditions.append({**fresh, **condition})
    return {**pod, "status": {**status, "conditions": conditions}}
