"""Tokens of service accounts: how they are asked for, and whose they are.

Reviews: questions about users and rights that are answered and not stored.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kube_lab_server.access.authentication import User
from kube_lab_server.access.authorization import Action
from kube_lab_server.handling.body_decoding import decode_object
from kube_lab_server.handling.object_meta import in_namespace, metadata_of, timestamp, wiped
from kube_lab_server.handling.object_views import document_reply
from kube_lab_server.kind_names import GVK
from kube_lab_server.store.store import Key
from kube_lab_server.wire.refusals import bad_request, conflict, invalid, not_found
from kube_lab_server.wire.request_options import write_options
from numakube.api.field_errors import FieldError
from numakube.api.field_errors import invalid as invalid_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kube_lab_server.access.authorization import Authorizer
    from kube_lab_server.handling.call import Call, Reply, ServerState
    from kube_lab_server.kind_names import Json


ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
_TOKEN_REQUEST: Final = GVK("authentication.k8s.io", "v1", "TokenRequest")
_DEFAULT_SECONDS: Final = 3600
_MIN_SECONDS: Final = 600
_MAX_SECONDS: Final = 1 << 32
_BOUND_KINDS: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


class ServiceAccountTokens:
    """Recognises the tokens of service accounts that still exist: a source of users."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    def user_of(self, token: str) -> User | None:
        """Return whose token it is."""
        claims = self._state.signer.claims(token)
        if claims is None or claims.get("exp", 0) < self._state.now().timestamp():
            return None
        bound: Json = claims["kubernetes.io"]
        namespace, account = bound["namespace"], bound["serviceaccount"]
        stored = self._state.store.get(Key("serviceaccounts", namespace, account["name"]))
        if stored is None or stored.obj["metadata"]["uid"] != account["uid"]:
            return None
        extra: list[tuple[str, tuple[str, ...]]] = []
        for kind, shelf in (("pod", "pods"), ("node", "nodes")):
            if kind in bound:
                if kind == "pod" and not self._exists(shelf, namespace, bound[kind]):
                    return None
                prefix = f"authentication.kubernetes.io/{kind}"
                extra.append((f"{prefix}-name", (bound[kind]["name"],)))
                extra.append((f"{prefix}-uid", (bound[kind]["uid"],)))
        return User(
            f"system:serviceaccount:{namespace}:{account['name']}",
            account["uid"],
            ("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
            tuple(extra),
        )

    def _exists(self, shelf: str, namespace: str, wanted: Json) -> bool:
        stored = self._state.store.get(Key(shelf, namespace, wanted["name"]))
        return stored is not None and stored.obj["metadata"]["uid"] == wanted["uid"]


def request_token(state: ServerState, call: Call) -> Reply:
    """Handle the POST of a token request."""
    options = write_options(call.query, kind="CreateOptions")
    request = decode_object(call, options, _TOKEN_REQUEST, state.rules_of(_TOKEN_REQUEST))
    request = in_namespace(request, call.namespace)
    account = state.find(call.resource, call.namespace, call.info.name)
    if account is None:
        raise not_found("", "serviceaccounts", call.info.name)
    name = metadata_of(request).get("name")
    if name not in (None, "", call.info.name):
        detail = "must match the service account name if specified"
        problem = invalid_field("metadata.name", name, detail)
        raise invalid(_TOKEN_REQUEST.group, _TOKEN_REQUEST.kind, call.info.name, [problem])
    spec = {**(request.get("spec") or {})}
    seconds = _seconds(spec)
    audiences = spec.get("audiences") or [ISSUER]
    now = state.now()
    until = now + timedelta(seconds=seconds)
    claims: Json = {
        "aud": audiences,
        "exp": int(until.timestamp()),
        "iat": int(now.timestamp()),
        "nbf": int(now.timestamp()),
        "iss": ISSUER,
        "sub": f"system:serviceaccount:{call.namespace}:{call.info.name}",
        "kubernetes.io": {
            "namespace": call.namespace,
            "serviceaccount": {"name": call.info.name, "uid": account.obj["metadata"]["uid"]},
            **_bound(state, call, spec.get("boundObjectRef")),
        },
    }
    metadata = {
        "name": call.info.name,
        "namespace": call.namespace,
        "creationTimestamp": timestamp(now),
    }
    status = {"token": state.signer.sign(claims), "expirationTimestamp": timestamp(until)}
    spec |= {"audiences": audiences, "expirationSeconds": seconds}
    spec.setdefault("boundObjectRef", None)
    return document_reply(
        call, 201, {**request, "metadata": metadata, "spec": spec, "status": status}
    )


def _seconds(spec: Json) -> int:
    seconds = spec.get("expirationSeconds")
    if seconds is None:
        return _DEFAULT_SECONDS
    problem = ""
    if seconds < _MIN_SECONDS:
        problem = "may not specify a duration less than 10 minutes"
    elif seconds > _MAX_SECONDS:
        problem = "may not specify a duration larger than 2^32 seconds"
    if problem:
        error = invalid_field("spec.expirationSeconds", seconds, problem)
        raise invalid(_TOKEN_REQUEST.group, _TOKEN_REQUEST.kind, "", [error])
    return int(seconds)


def _bound(state: ServerState, call: Call, reference: Json | None) -> Json:
    """Return the claims that bind a token to another object's life."""
    if reference is None:
        return {}
    kind, name = reference.get("kind", ""), reference.get("name", "")
    shelf = _BOUND_KINDS.get(kind)
    if shelf is None:
        sent = GVK.of(reference)
        shown = f"{sent.group}/{sent.version}, Kind={kind}"
        raise bad_request(f"cannot bind token to object of type {shown}")
    namespace = "" if kind == "Node" else call.namespace
    stored = state.store.get(Key(shelf, namespace, name))
    if stored is None:
        raise not_found("", shelf, name)
    uid = stored.obj["metadata"]["uid"]
    if reference.get("uid") not in (None, "", uid):
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID "
            f"in record. The object might have been deleted and then recreated"
        )
        raise conflict("", shelf, name, why)
    bound: Json = {kind.lower(): {"name": name, "uid": uid}}
    node = (stored.obj.get("spec") or {}).get("nodeName") if kind == "Pod" else None
    if node and (found := state.store.get(Key("nodes", "", node))):
        bound["node"] = {"name": node, "uid": found.obj["metadata"]["uid"]}
    return bound


def review(state: ServerState, call: Call) -> Reply:
    """Answer the POST of a review."""
    options = write_options(call.query, kind="CreateOptions")
    obj = decode_object(call, options, call.resource.kind, call.rules)
    obj = in_namespace(wiped(obj), call.namespace)
    answered = _REVIEWS[call.resource.kind.kind](state, call, obj)
    metadata = {k: v for k, v in metadata_of(answered).items() if k != "managedFields"}
    return document_reply(call, 201, {**answered, "metadata": metadata})


def _token_review(state: ServerState, call: Call, obj: Json) -> Json:
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


def _self_subject_review(state: ServerState, call: Call, obj: Json) -> Json:
    metadata = {**metadata_of(obj), "creationTimestamp": timestamp(state.now())}
    return {**obj, "metadata": metadata, "status": {"userInfo": call.user.info()}}


def _access_review(state: ServerState, call: Call, obj: Json) -> Json:
    spec = obj.get("spec") or {}
    _refuse(call, [*_check_attributes(spec), *_check_subject(spec)])
    user = User(
        spec.get("user") or "",
        spec.get("uid") or "",
        tuple(spec.get("groups") or ()),
    )
    return {**obj, "status": _status(state.authorizer, user, spec)}


def _local_access_review(state: ServerState, call: Call, obj: Json) -> Json:
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


def _self_access_review(state: ServerState, call: Call, obj: Json) -> Json:
    spec = obj.get("spec") or {}
    _refuse(call, list(_check_attributes(spec)))
    return {**obj, "status": _status(state.authorizer, call.user, spec)}


def _self_rules_review(state: ServerState, call: Call, obj: Json) -> Json:
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


_REVIEWS: Final[Mapping[str, Callable[[ServerState, Call, Json], Json]]] = {
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
