"""ValidatingAdmissionPolicies: expressions that may refuse a write, as in kube-apiserver 1.37.

Every binding of a policy is asked when the object is complete and valid otherwise. Policies with
parameters (``paramKind``) are not evaluated. Of the variable ``authorizer`` there is what a policy
needs to ask whether the writer may do something to a resource, in one go up to ``allowed()``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kube_lab_server.access.authorization import Action
from kube_lab_server.handling.object_meta import metadata_of
from kube_lab_server.kinds.value_checks import matches
from kube_lab_server.store.store import Key
from kube_lab_server.wire.refusals import RequestRefusal, forbidden
from numakube.cel import (
    DYN,
    CompileError,
    EvaluationError,
    EvaluationStopped,
    Program,
    compile_expression,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_lab_server.handling.call import Call, ServerState
    from kube_lab_server.kind_names import Json

_GROUP: Final = "admissionregistration.k8s.io"
_POLICIES: Final = f"{_GROUP}/validatingadmissionpolicies"
_BINDINGS: Final = f"{_GROUP}/validatingadmissionpolicybindings"
_ANSWER: Final = "_allowed"
_NAMES: Final = (
    "object", "oldObject", "request", "namespaceObject", "variables", _ANSWER,
)  # fmt: skip
_COST_LIMIT: Final = 1_000_000
"""Of one expression."""
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}
_INVALID: Final = 422
_QUESTION: Final = re.compile(r"authorizer((?:\.[a-z]+\([^()]*\))+)\.allowed\(\)")
_ASKED: Final = re.compile(r"\.([a-z]+)\(([^()]*)\)")


May: TypeAlias = Callable[[Mapping[str, object]], bool]


class _Broken(Exception):
    """An expression has no value; the policy says what follows from that."""


def check_policies(
    state: ServerState, call: Call, obj: Json | None, old: Json | None, operation: str
) -> None:
    """Refuse a write that a policy of the cluster denies; note what one only warns of."""
    for stored in state.store.listed(_BINDINGS, ""):
        binding: Json = stored.obj["spec"]
        policy = state.store.get(Key(_POLICIES, "", binding.get("policyName", "")))
        if policy is None or policy.obj["spec"].get("paramKind"):
            continue
        spec: Json = policy.obj["spec"]
        sent = _Sent(state, call, obj, old, operation)
        if not sent.is_meant(spec.get("matchConstraints") or {}):
            continue
        narrowed = binding.get("matchResources")
        if narrowed is not None and not sent.is_meant(narrowed):
            continue
        subject = f"ValidatingAdmissionPolicy '{policy.key.name}' with binding '{stored.key.name}'"
        for message, reason in _denials(spec, sent.bindings(), sent.may):
            _act(call, sent.name, binding["validationActions"], subject, message, reason)


def _act(
    call: Call, name: str, actions: list[str], subject: str, message: str, reason: str
) -> None:
    if "Deny" in actions:
        raise _refusal(call, name, f"{subject} denied request: {message}", reason)
    if "Warn" in actions:
        call.warnings.append(f"Validation failed for {subject}: {message}")


def _refusal(call: Call, name: str, message: str, reason: str) -> RequestRefusal:
    refusal = forbidden(call.resource.group, call.resource.plural, name, message)
    refusal.code = refusal.status["code"] = _CODES.get(reason, _INVALID)
    refusal.status["reason"] = reason
    refusal.status["details"]["causes"] = [{"message": message}]
    return refusal


class _Sent:
    """A write, as policies see it."""

    def __init__(
        self, state: ServerState, call: Call, obj: Json | None, old: Json | None, operation: str
    ) -> None:
        self._state, self._call = state, call
        self._object, self._old, self._operation = obj, old, operation
        metadata = metadata_of(obj if obj is not None else old or {})
        self.name = call.info.name or metadata.get("name") or ""
        self._labels = metadata.get("labels")

    def is_meant(self, constraints: Json) -> bool:
        """Tell whether a policy or a binding is about this write."""
        rules = constraints.get("resourceRules")
        excluded = constraints.get("excludeResourceRules") or ()
        return (
            (rules is None or any(self._fits(rule) for rule in rules))
            and not any(self._fits(rule) for rule in excluded)
            and matches(constraints.get("objectSelector") or {}, self._labels)
            and self._is_in(constraints.get("namespaceSelector") or {})
        )

    def _fits(self, rule: Json) -> bool:
        # A policy that names one version of a kind is about the others too (``Equivalent``).
        resource, part = self._call.resource, self._call.info.subresource
        whole = f"{resource.plural}/{part}" if part else resource.plural
        any_part = (f"{resource.plural}/*", f"*/{part}", "*/*") if part else ("*", "*/*")
        names = rule.get("resourceNames")
        return (
            not {"*", self._operation}.isdisjoint(rule.get("operations") or ())
            and not {"*", resource.group}.isdisjoint(rule.get("apiGroups") or ())
            and not {whole, *any_part}.isdisjoint(rule.get("resources") or ())
            and (not names or self.name in names)
        )

    def _is_in(self, selector: Json) -> bool:
        namespace = self._namespace()
        return namespace is None or matches(selector, metadata_of(namespace).get("labels"))

    def _namespace(self) -> Json | None:
        if self._call.resource.shelf == "namespaces":
            return self._object or self._old
        stored = self._state.store.get(Key("namespaces", "", self._call.namespace))
        return None if stored is None else stored.obj

    def may(self, asked: Mapping[str, object]) -> bool:
        """Tell whether the writer may do something, which is named as ``authorizer`` names it."""
        parts = {key: str(value) for key, value in asked.items()}
        action = Action(parts.pop("check"), **parts)
        return self._state.authorizer.decide(self._call.user, action).allowed

    def bindings(self) -> dict[str, Any]:
        """Return the variables of expressions."""
        call = self._call
        kind = call.resource.kind
        request: Json = {
            "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            "resource": {
                "group": kind.group,
                "version": kind.version,
                "resource": call.resource.plural,
            },
            "name": self.name,
            "operation": self._operation,
            "userInfo": call.user.info(),
            "dryRun": "dryRun" in call.query,
        }
        for field, value in (
            ("subResource", call.info.subresource),
            ("namespace", call.namespace),
        ):
            if value:
                request[field] = value
        return {
            "object": self._object,
            "oldObject": self._old,
            "request": request,
            "namespaceObject": self._namespace(),
            "variables": {},
        }


def _denials(spec: Json, bindings: dict[str, Any], may: May) -> Iterator[tuple[str, str]]:
    """Yield message and reason of every validation that fails."""
    lenient = spec.get("failurePolicy") == "Ignore"
    try:
        if not all(
            _value(condition["expression"], bindings)
            for condition in spec.get("matchConditions") or ()
        ):
            return
    except _Broken as error:
        if not lenient:
            yield str(error), "Invalid"
        return
    for variable in spec.get("variables") or ():
        try:
            bindings["variables"][variable["name"]] = _value(variable["expression"], bindings)
        except _Broken:
            continue  # Only an expression that uses it has no value either.
    for validation in spec.get("validations") or ():
        try:
            if _value(_answered(validation["expression"], bindings, may), bindings) is True:
                continue
            message = _message(validation, bindings)
        except _Broken as error:
            if lenient:
                continue
            message = str(error)
        yield message, validation.get("reason") or "Invalid"


def _message(validation: Json, bindings: dict[str, Any]) -> str:
    if validation.get("messageExpression"):
        try:
            text = _value(validation["messageExpression"], bindings)
        except _Broken:
            text = None
        if isinstance(text, str) and text.strip() and "\n" not in text.strip():
            return text.strip()
    given = str(validation.get("message") or "").strip()
    return given or f"failed expression: {str(validation['expression']).strip()}"


def _answered(expression: str, bindings: dict[str, Any], may: May) -> str:
    """Return *expression* with a variable in place of a question to ``authorizer``."""
    if (question := _QUESTION.search(expression)) is None:
        return expression
    asked = {step: _value(text, bindings) for step, text in _ASKED.findall(question[1])}
    bindings[_ANSWER] = may(asked)
    return expression.replace(question[0], _ANSWER)


def _value(expression: str, bindings: dict[str, Any]) -> object:
    try:
        return _compiled(expression).evaluate(bindings, limit=_COST_LIMIT)
    except (CompileError, EvaluationError, EvaluationStopped) as error:
        raise _Broken(f"expression '{expression}' resulted in error: {error}") from None


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Program:
    return compile_expression(expression, dict.fromkeys(_NAMES, DYN))
