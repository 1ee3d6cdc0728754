"""Tokens of service accounts: how they are asked for, and whose they are."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import invalid as invalid_field
from numakube_lab.api.access.authentication import User
from numakube_lab.api.handling.body_decoding import decode_object
from numakube_lab.api.handling.object_meta import in_namespace, metadata_of, timestamp
from numakube_lab.api.handling.rendering import document_reply
from numakube_lab.api.store.store import Key
from numakube_lab.api.wire.refusals import bad_request, conflict, invalid, not_found
from numakube_lab.api.wire.request_options import write_options
from numakube_lab.kinds import GVK

if TYPE_CHECKING:
    from numakube_lab.api.handling.call import Call, Reply
    from numakube_lab.api.handling.server_state import State
    from numakube_lab.kinds import Json

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
_TOKEN_REQUEST: Final = GVK("authentication.k8s.io", "v1", "TokenRequest")
_DEFAULT_SECONDS: Final = 3600
_MIN_SECONDS: Final = 600
_MAX_SECONDS: Final = 1 << 32
_BOUND_KINDS: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


class ServiceAccountTokens:
    """Recognises the tokens of service accounts that still exist: a source of users."""

    def __init__(self, state: State) -> None:
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


def request_token(state: State, call: Call) -> Reply:
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


def _bound(state: State, call: Call, reference: Json | None) -> Json:
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
