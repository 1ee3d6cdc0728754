"""Evict pods: delete them if their disruption budget allows it.

Bind pods to nodes: the one change of a pod's node that is possible, and only once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kube_lab_server.handling.body_decoding import decode_object
from kube_lab_server.handling.object_meta import in_namespace, metadata_of, timestamp, with_metadata
from kube_lab_server.handling.object_views import document_reply
from kube_lab_server.kind_names import GVK, Json
from kube_lab_server.kinds.value_checks import matches
from kube_lab_server.store.store import Key, Stored
from kube_lab_server.verbs.admission_policies import check_policies
from kube_lab_server.verbs.deleting import check_preconditions, delete_object
from kube_lab_server.verbs.updating import precondition_failed
from kube_lab_server.wire.refusals import (
    RequestRefusal,
    bad_request,
    conflict,
    failed,
    forbidden,
    not_found,
)
from kube_lab_server.wire.request_options import DeleteOptions, delete_options, write_options
from numakube.api.field_errors import FieldError, aggregate, not_supported, required

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.handling.call import Call, Reply, ServerState


_BINDING = GVK("", "v1", "Binding")


def bind(state: ServerState, call: Call) -> Reply:
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


def _assign(state: ServerState, call: Call, name: str, binding: Json, *, dry_run: bool) -> None:
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


def _check_preconditions(state: ServerState, stored: Stored, wanted: Json) -> None:
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


_EVICTION: Final = GVK("policy", "v1", "Eviction")
_OLD_EVICTION: Final = GVK("policy", "v1beta1", "Eviction")
_BUDGETS: Final = "policy/poddisruptionbudgets"
_VIOLATES: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_CAUSE: Final = "DisruptionBudget"
_TOO_MANY_BUDGETS: Final = (
    "This pod has more than one PodDisruptionBudget, "
    "which the eviction subresource does not support."
)
_MAX_DISRUPTED: Final = 2000
"""How many evictions a budget may have that its controller has not seen yet."""


def evict(state: ServerState, call: Call) -> Reply:
    """Handle the POST of an eviction."""
    options = write_options(call.query, kind="CreateOptions")
    rules = state.rules_of(_EVICTION)
    eviction = decode_object(call, options, _EVICTION, rules, aliases=(_OLD_EVICTION,))
    eviction = in_namespace(eviction, call.namespace)
    if metadata_of(eviction).get("name", "") != call.info.name:
        raise bad_request("name in URL does not match name in Eviction object")
    wanted = delete_options(call.query, eviction.get("deleteOptions") or {})
    wanted = replace(wanted, dry_run=wanted.dry_run or options.dry_run)
    pod = state.store.get(Key("pods", call.namespace, call.info.name))
    if pod is None:
        raise not_found("", "pods", call.info.name)
    budgets = [] if _needs_no_budget(pod.obj) else _budgets(state, pod)
    if len(budgets) > 1:
        raise failed(_TOO_MANY_BUDGETS)
    if budgets:
        _ask_budget(state, budgets[0], pod, dry_run=wanted.dry_run)
    _delete(state, call, pod, wanted)
    return document_reply(call, 201, success_status())


def _needs_no_budget(pod: Json) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(
        pod["metadata"].get("deletionTimestamp")
    )


def _delete(state: ServerState, call: Call, pod: Stored, options: DeleteOptions) -> None:
    """Mark the pod as disrupted, then delete it."""
    check_preconditions(call, pod, options)
    if not options.dry_run:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        marked = with_condition(pod.obj, condition, state.now())
        if marked != pod.obj:
            pod = state.store.put(pod.key, marked)
        wanted = replace(options.preconditions, resource_version=None)
        options = replace(options, preconditions=wanted)
    delete_object(state, call, pod, options)


def _budgets(state: ServerState, pod: Stored) -> list[Stored]:
    return [
        budget
        for budget in state.store.listed(_BUDGETS, pod.key.namespace)
        if _covers(budget.obj, pod.obj)
    ]


def _ask_budget(state: ServerState, budget: Stored, pod: Stored, *, dry_run: bool) -> None:
    """Take one disruption from *budget*; refuse if there is none left."""
    if _tolerates_unready(budget.obj, pod.obj):
        return
    _check_allowed(budget.obj)
    if not dry_run:
        state.store.put(budget.key, _used(state, budget.obj, pod.key.name))


def _covers(budget: Json, pod: Json) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    return matches(selector, pod["metadata"].get("labels"))


def _tolerates_unready(budget: Json, pod: Json) -> bool:
    """Tell whether a pod that is not ready may go without using up the budget."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired: int = status.get("desiredHealthy", 0)
    current: int = status.get("currentHealthy", 0)
    return current >= desired > 0


def _check_allowed(budget: Json) -> None:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", 10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden(
            "policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative"
        )
    if len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("policy", "poddisruptionbudget", name, why)
    if allowed == 0:
        raise _too_many(_why_not(name, status))


def _why_not(name: str, status: Json) -> str:
    current, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    condition = next(
        (c for c in status.get("conditions") or () if c["type"] == "DisruptionAllowed"), None
    )
    told = (condition or {}).get("message") if (condition or {}).get("status") == "False" else ""
    reason = (condition or {}).get("reason")
    head = f"The disruption budget {name}"
    if told and reason == "SyncFailed":
        return f"{head} does not allow evicting pods currently because it failed sync: {told}"
    if current <= desired:
        return f"{head} needs {desired} healthy pods and has {current} currently"
    if told:
        return f"{head} does not allow evicting pods currently ({reason}): {told}"
    return f"{head} does not allow evicting pods currently"


def _too_many(message: str, retry_after: int = 0) -> RequestRefusal:
    details: Json = {"causes": [{"reason": _CAUSE, "message": message}]}
    headers = {}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
        headers["Retry-After"] = str(retry_after)
    return RequestRefusal(429, "TooManyRequests", _VIOLATES, details, headers)


def _used(state: ServerState, budget: Json, pod_name: str) -> Json:
    """Return *budget* with one disruption less, for *pod_name*."""
    status = budget["status"]
    now = timestamp(state.now())
    left = status["disruptionsAllowed"] - 1
    disrupted = {**(status.get("disruptedPods") or {}), pod_name: now}
    changed = {**status, "disruptionsAllowed": left, "disruptedPods": disrupted}
    if left == 0:
        changed["conditions"] = _exhausted(budget, now)
    return {**budget, "status": changed}


def _exhausted(budget: Json, now: str) -> list[Json]:
    """Return the budget's conditions, saying that nothing more may go."""
    conditions = [dict(c) for c in budget["status"].get("conditions") or ()]
    old = next((c for c in conditions if c["type"] == "DisruptionAllowed"), None)
    since = now if old is None or old["status"] != "False" else old["lastTransitionTime"]
    fresh = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": budget["status"].get("observedGeneration", 0),
        "lastTransitionTime": since,
        "reason": "InsufficientPods",
        "message": "",
    }
    return [fresh if c is old else c for c in conditions] + ([fresh] if old is None else [])
