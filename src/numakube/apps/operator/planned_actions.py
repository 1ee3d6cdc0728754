"""What a pass over the present state decides: what to apply and delete, and the conditions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numakube.api.numaresources import OperatorCondition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.meta import ObjectMeta
    from numakube.kube.resource_types import Document


@dataclass(frozen=True, slots=True)
class Apply:
    """Make an object be as described; the fields that it does not mention are others'."""

    document: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Remove an object, if it is still the one that was seen."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


Action: TypeAlias = Apply | Remove


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An object on the server that an operator has made."""

    api_version: str
    kind: str
    metadata: ObjectMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPlan:
    """What to do about one object of the user.

    Attributes:
        actions: in order; the first that fails ends the pass.
        verdict: what to say if all of them succeed.
        status: fields of the status besides the conditions.
    """

    actions: tuple[Action, ...] = ()
    verdict: PassVerdict
    status: dict[str, Any]


def leftovers(made: Iterable[Made], owner_uid: str, wanted: Iterable[Apply]) -> list[Remove]:
    """Return what to remove: objects of this owner that are not wanted any more."""
    names = {_name(apply.document) for apply in wanted}
    return [
        Remove(
            api_version=other.api_version,
            kind=other.kind,
            namespace=other.metadata.namespace,
            name=other.metadata.name,
            uid=other.metadata.uid,
        )
        for other in made
        if other.metadata.is_owned_by(owner_uid)
        and other.metadata.deletion_timestamp is None
        and (other.kind, other.metadata.namespace, other.metadata.name) not in names
    ]


def _name(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def owned(document: Document, owner: Document) -> Document:
    """Return *document* with *owner* as its controller, so that it vanishes with it."""
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {**document, "metadata": {**document["metadata"], "ownerReferences": [reference]}}


# The conditions of both objects, by the rules of the NUMA Resources Operator.
#
# ``Available``, ``Upgradeable``, ``Progressing`` and ``Degraded`` are always written together, and
# after a pass exactly one of available (with upgradeable), progressing and degraded holds. The time
# of a condition changes with its status only.


AVAILABLE: Final = "Available"
UPGRADEABLE: Final = "Upgradeable"
PROGRESSING: Final = "Progressing"
DEGRADED: Final = "Degraded"
POOL_PAUSED: Final = "MachineConfigPoolPaused"
DEDICATED_INFORMER: Final = "DedicatedInformerActive"

INTERNAL_ERROR: Final = "InternalError"
_BASE: Final = (AVAILABLE, UPGRADEABLE, PROGRESSING, DEGRADED)
_LONGEST_MESSAGE: Final = 32768


class PlannedState(StrEnum):
    """How things stand."""

    AVAILABLE = AVAILABLE
    PROGRESSING = PROGRESSING
    DEGRADED = DEGRADED


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """A condition besides the four."""

    type: str
    holds: bool | None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassVerdict:
    """What a pass concludes.

    Attributes:
        reason: in one word; the state's own name if empty.
        extras: further conditions.
    """

    state: PlannedState
    reason: str = ""
    message: str = ""
    extras: tuple[Extra, ...] = ()


def degraded(reason: str, message: str, *extras: Extra) -> PassVerdict:
    """Return that something is wrong."""
    return PassVerdict(state=PlannedState.DEGRADED, reason=reason, message=message, extras=extras)


def verdict_of(
    *, updating: str | None, wrong: tuple[str, str] | None = None, extras: tuple[Extra, ...] = ()
) -> PassVerdict:
    """Return what follows from what was found.

    Args:
        updating: what is not up to date yet, by name if that is told; ``None`` if all is.
        wrong: what is wrong, as reason and message; it shows when nothing is updating any more.
        extras: further conditions.
    """
    if updating is not None:
        message = f"{updating} is updating" if updating else ""
        return PassVerdict(state=PlannedState.PROGRESSING, message=message, extras=extras)
    if wrong is not None:
        return degraded(*wrong, *extras)
    return PassVerdict(state=PlannedState.AVAILABLE, extras=extras)


def conditions_of(
    verdict: PassVerdict, before: Sequence[OperatorCondition], *, generation: int, now: str
) -> tuple[OperatorCondition, ...]:
    """Return all conditions; those of *before* that nothing is known of stay as they are."""
    known = {condition.type: condition for condition in before}
    fresh = [_base(type_, verdict, generation, now) for type_ in _BASE]
    fresh += [_extra(extra, generation, now) for extra in verdict.extras]
    settled = {condition.type: _aged(condition, known.get(condition.type)) for condition in fresh}
    return tuple({**known, **settled}.values())


def _base(type_: str, verdict: PassVerdict, generation: int, now: str) -> OperatorCondition:
    holds = type_ == verdict.state or (
        type_ == UPGRADEABLE and verdict.state is PlannedState.AVAILABLE
    )
    told = holds and type_ == verdict.state
    return OperatorCondition(
        type=type_,
        status="True" if holds else "False",
        reason=(verdict.reason if told else "") or type_,
        message=verdict.message[:_LONGEST_MESSAGE] if told else "",
        observed_generation=generation,
        last_transition_time=now,
    )


def _extra(extra: Extra, generation: int, now: str) -> OperatorCondition:
    return OperatorCondition(
        type=extra.type,
        status="Unknown" if extra.holds is None else str(extra.holds),
        reason=extra.type,
        message=extra.message,
        observed_generation=generation,
        last_transition_time=now,
    )


def _aged(condition: OperatorCondition, before: OperatorCondition | None) -> OperatorCondition:
    if before is None or before.status != condition.status:
        return condition
    return OperatorCondition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        observed_generation=condition.observed_generation,
        last_transition_time=before.last_transition_time,
    )
