"""Reviews: questions about users and rights that are answered and not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError
from numakube.api.field_errors import invalid as invalid_field
from numakube_lab.api.access.authentication import User
from numakube_lab.api.access.authorization import Action
from numakube_lab.api.handling.body_decoding import decode_object
from numakube_lab.api.handling.object_meta import in_namespace, metadata_of, timestamp, wiped
from numakube_lab.api.handling.rendering import document_reply
from numakube_lab.api.subresources.account_tokens import ISSUER
from numakube_lab.api.wire.refusals import bad_request, invalid
from numakube_lab.api.wire.request_options import write_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numakube_lab.api.access.authorization import Authorizer
    from numakube_lab.api.handling.call import Call, Reply
    from numakube_lab.api.handling.server_state import State
    from numakube_lab.kinds import Json


def review(state: State, call: Call) -> Reply:
    """Answer the POST of a review."""
    options = write_options(call.query, kind="CreateOptions")
    obj = decode_object(call, options, call.resource.kind, call.rules)
    obj = in_namespace(wiped(obj), call.namespace)
    answered = _REVIEWS[call.resource.kind.kind](state, call, obj)
    metadata = {k: v for k, v in metadata_of(answered).items() if k != "managedFields"}
    return document_reply(call, 201, {**answered, "metadata": metadata})


def _token_review(state: State, call: Call, obj: Json) -> Json:
    del call
    spec = obj.get("spec") or {}
    token = spec.get("token")
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    user = state.authenticator.user_of(token)
    if user is None:
        return {**obj, "status": {"user": {}, "error": "invalid bearer token"}}
    audiences = spec.get("audiences") or [ISSUER]
    status = {"authenticated": True, "user": user.info(), "audiences": audiences}
    return {**obj, "status": status}


def _self_subject_review(state: State, call: Call, obj: Json) -> Json:
    metadata = {**metadata_of(obj), "creationTimestamp": timestamp(state.now())}
    return {**obj, "metadata": metadata, "status": {"userInfo": call.user.info()}}


def _access_review(state: State, call: Call, obj: Json) -> Json:
    spec = obj.get("spec") or {}
    _refuse(call, [*_check_attributes(spec), *_check_subject(spec)])
    user = User(
        spec.get("user") or "",
        spec.get("uid") or "",
        tuple(spec.get("groups") or ()),
    )
    return {**obj, "status": _status(state.authorizer, user, spec)}


def _local_access_review(state: State, call: Call, obj: Json) -> Json:
    spec = obj.get("spec") or {}
    _refuse(call, [*_check_attributes(spec), *_check_subject(spec)])
    if "nonResourceAttributes" in spec:
        _refuse(
            call,
            [
                invalid_field(
                    "spec.nonResourceAttributes",
                    _shown_path(spec["nonResourceAttributes"]),
                    "disallowed on this kind of request",
                )
            ],
        )
    namespace = spec["resourceAttributes"].get("namespace", "")
    if namespace != call.namespace:
        field = "spec.resourceAttributes.namespace"
        _refuse(call, [invalid_field(field, namespace, "must match metadata.namespace")])
    return _access_review(state, call, obj)


def _self_access_review(state: State, call: Call, obj: Json) -> Json:
    spec = obj.get("spec") or {}
    _refuse(call, list(_check_attributes(spec)))
    return {**obj, "status": _status(state.authorizer, call.user, spec)}


def _self_rules_review(state: State, call: Call, obj: Json) -> Json:
    namespace = (obj.get("spec") or {}).get("namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    resource_rules, path_rules = [], []
    for rule in state.authorizer.rules_for(call.user, namespace):
        if rule.get("resources"):
            resource_rules.append({k: v for k, v in rule.items() if k != "nonResourceURLs"})
        if rule.get("nonResourceURLs"):
            path_rules.append({k: rule[k] for k in ("verbs", "nonResourceURLs")})
    status = {
        "resourceRules": resource_rules,
        "nonResourceRules": path_rules,
        "incomplete": False,
    }
    return {**obj, "spec": {}, "status": status}


_REVIEWS: Final[Mapping[str, Callable[[State, Call, Json], Json]]] = {
    "TokenReview": _token_review,
    "SelfSubjectReview": _self_subject_review,
    "SubjectAccessReview": _access_review,
    "LocalSubjectAccessReview": _local_access_review,
    "SelfSubjectAccessReview": _self_access_review,
    "SelfSubjectRulesReview": _self_rules_review,
}


def _refuse(call: Call, errors: list[FieldError]) -> None:
    # The real server does not name the kind here.
    if errors:
        raise invalid(call.resource.group, "", "", errors)


def _check_attributes(spec: Json) -> Iterator[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        yield invalid_field("spec.nonResourceAttributes", _shown_path(path), detail)
    if resource is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield invalid_field("spec.resourceAttributes", None, detail)


def _shown_path(attributes: Json) -> Json:
    """Return attributes as the real server's messages show them, with their names in Go."""
    return {name.title(): value for name, value in attributes.items()}


def _check_subject(spec: Json) -> Iterator[FieldError]:
    if not spec.get("user") and not spec.get("groups"):
        detail = "at least one of user or group must be specified"
        yield invalid_field("spec.user", "", detail)


def _status(authorizer: Authorizer, user: User, spec: Json) -> Json:
    verdict = authorizer.decide(user, _action(spec))
    status: Json = {"allowed": verdict.allowed}
    if verdict.reason:
        status["reason"] = verdict.reason
    return status


def _action(spec: Json) -> Action:
    if (path := spec.get("nonResourceAttributes")) is not None:
        return Action(path.get("verb", ""), path=path.get("path", ""))
    wanted = spec["resourceAttributes"]
    return Action(
        verb=wanted.get("verb", ""),
        group=wanted.get("group", ""),
        resource=wanted.get("resource", ""),
        subresource=wanted.get("subresource", ""),
        namespace=wanted.get("namespace", ""),
        name=wanted.get("name", ""),
    )
