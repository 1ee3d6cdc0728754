"""Taints of nodes and the tolerations of pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import (
    ErrorType,
    FieldError,
    Verbatim,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
)
from numakube.values import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube_lab.kinds import Json

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NO_KEY: Final = (
    'operator must be Exists when `key` is empty, which means "match all values and all keys"'
)
_ONLY_SECONDS: Final = "existing toleration can not be modified except its tolerationSeconds"


def validate_effect(effect: str, path: str) -> list[FieldError]:
    """Check the effect of a taint or toleration."""
    return [] if effect in EFFECTS else [not_supported(path, effect, EFFECTS)]


def validate_tolerations(tolerations: Sequence[Json], path: str) -> list[FieldError]:
    """Check the tolerations of a pod."""
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        errors += _validate_toleration(toleration, f"{path}[{index}]")
    return errors


def _validate_toleration(toleration: Json, path: str) -> list[FieldError]:
    key = toleration.get("key") or ""
    operator = toleration.get("operator") or ""
    effect = toleration.get("effect") or ""
    errors = invalids(f"{path}.key", key, names.qualified_name(key)) if key else []
    if not key and operator != "Exists":
        errors.append(invalid(f"{path}.operator", operator, _NO_KEY))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{path}.effect", effect, detail))
    errors += _validate_operator(operator, toleration.get("value") or "", f"{path}.operator")
    return errors + (validate_effect(effect, f"{path}.effect") if effect else [])


def _validate_operator(operator: str, value: str, path: str) -> list[FieldError]:
    if operator in {"", "Equal"}:
        wrong = names.label_value(value)
        return [invalid(path, value, ";".join(wrong))] if wrong else []
    if operator == "Exists":
        detail = "value must be empty when `operator` is 'Exists'"
        return [invalid(path, value, detail)] if value else []
    # Comparison is behind a gate that is off in 1.35; a refusal names it all the same.
    known = ("Equal", "Exists", "Lt", "Gt") if operator in {"Lt", "Gt"} else ("Equal", "Exists")
    return [not_supported(path, operator, known)]


def validate_only_added_tolerations(
    new: Sequence[Json], old: Sequence[Json], path: str
) -> list[FieldError]:
    """Check that a pod's update adds tolerations or changes their seconds, nothing else."""
    kept = [_without_seconds(toleration) for toleration in new]
    if any(_without_seconds(toleration) not in kept for toleration in old):
        return [forbidden(path, _ONLY_SECONDS)]
    return validate_tolerations(new, path)


def _without_seconds(toleration: Json) -> Json:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def merge_tolerations(tolerations: Sequence[Json]) -> list[Json]:
    """Return *tolerations* without those that another one covers."""
    merged: list[Json] = []
    for index, one in enumerate(tolerations):
        earlier = any(_covers(other, one) for other in merged)
        later = any(other != one and _covers(other, one) for other in tolerations[index + 1 :])
        if not earlier and not later:
            merged.append(one)
    return merged


def _covers(one: Json, other: Json) -> bool:
    """Tell whether *one* tolerates whatever *other* does."""
    if one == other:
        return True
    operator = one.get("operator") or "Equal"
    every_key = not one.get("key") and operator == "Exists"
    if one.get("key") != other.get("key") and not every_key:
        return False
    if one.get("effect") and one.get("effect") != other.get("effect"):
        return False
    patience = one.get("tolerationSeconds")
    if one.get("effect") == "NoExecute" and patience is not None:
        longer = other.get("tolerationSeconds")
        if longer is None or longer > patience:
            return False
    if operator == "Equal":
        return other.get("operator") == "Equal" and one.get("value") == other.get("value")
    return operator == "Exists"


def validate_taints(taints: Sequence[Json], path: str) -> list[FieldError]:
    """Check the taints of a node, which are unique by key and effect."""
    errors: list[FieldError] = []
    seen: dict[str, set[str]] = {}
    for index, taint in enumerate(taints):
        place = f"{path}[{index}]"
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        value = taint.get("value") or ""
        errors += invalids(f"{place}.key", key, names.qualified_name(key))
        if wrong := names.label_value(value):
            errors.append(invalid(f"{place}.value", value, ";".join(wrong)))
        errors += (
            validate_effect(effect, f"{place}.effect") if effect else [required(f"{place}.effect")]
        )
        known = seen.setdefault(effect, set())
        if key in known:
            errors.append(_repeated_taint(taint, place))
        known.add(key)
    return errors


def _repeated_taint(taint: Json, path: str) -> FieldError:
    # The taint is shown as the server holds it, with the field names of its Go type.
    shown = {
        "Key": taint.get("key") or "",
        "Value": taint.get("value") or "",
        "Effect": taint.get("effect") or "",
        "TimeAdded": taint.get("timeAdded"),
    }
    text = Verbatim(json.dumps(shown, separators=(",", ":"), ensure_ascii=False))
    return FieldError(
        ErrorType.DUPLICATE, path, "taints must be unique by key and effect pair", text
    )
