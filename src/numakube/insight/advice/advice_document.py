"""Advice as a document, and in lines of text.

Fields are only ever added; docs/reference/advise.md describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from numakube.insight.explain.explanation_document import Document
from numakube.values.display import counted

if TYPE_CHECKING:
    from collections.abc import Iterator


class RequestAdvice(Document, frozen=True):
    """Another request, and what it brings.

    Attributes:
        was: what is asked for, as a quantity; so is ``to``.
        nodes: on how many nodes one such pod fits now.
        slots: how many fit on all nodes if they are idle.
        text: the same in a sentence.
    """

    container: str
    resource: str
    was: str
    to: str
    nodes: int
    slots: int
    text: str


class ReservationAdvice(Document, frozen=True):
    """Another reservation of kubelets, and what it brings.

    Attributes:
        like: one of the nodes; ``nodes`` is how many there are.
        setting: the field of the KubeletConfiguration.
        slots: how many pods each of them holds when idle; ``slots_then`` with the change.
    """

    like: str
    nodes: int
    resource: str
    setting: str
    was: str
    to: str
    slots: int
    slots_then: int
    text: str


class Advice(Document, frozen=True, kw_only=True):
    """What there is to say of the requests of a pod, or of the pods of a workload.

    Attributes:
        name: as ``kind/name``.
        requests: of the whole pod, as quantities.
        total: how many nodes there are.
        nodes: on how many of them one such pod fits now; ``places`` is how many fit in all.
        slots: how many fit on all nodes if they are idle; ``None`` if no node has exact data.
        notes: what the answer rests on or leaves open.
    """

    api_version: str = "insight.numakube.dev/v1alpha1"
    kind: str = "RequestAdvice"
    taken_at: str = ""
    namespace: str = ""
    name: str = ""
    requests: dict[str, str] = msgspec.field(default_factory=dict)
    total: int = 0
    nodes: int = 0
    places: int = 0
    slots: int | None = None
    smaller: tuple[RequestAdvice, ...] = ()
    larger: tuple[RequestAdvice, ...] = ()
    reservations: tuple[ReservationAdvice, ...] = ()
    notes: tuple[str, ...] = ()


def advice_lines(advice: Advice) -> Iterator[str]:
    """Yield the advice for people."""
    asked = ", ".join(f"{name} {text}" for name, text in advice.requests.items()) or "nothing"
    yield f"{advice.name} (namespace {advice.namespace}) asks for {asked}."
    idle = "" if advice.slots is None else f" Idle, they would hold {advice.slots}."
    where = f"on {advice.nodes} of {counted(advice.total, 'node')}"
    yield f"It fits {where} now, {counted(advice.places, 'time')} in all.{idle}"
    for title, lines in (
        ("Ask for more:", [one.text for one in advice.larger]),
        ("Ask for less:", [one.text for one in advice.smaller]),
        ("Reserve otherwise:", [one.text for one in advice.reservations]),
    ):
        if lines:
            yield ""
            yield title
            yield from (f"  {line}" for line in lines)
    if not advice.smaller and not advice.larger and not advice.reservations:
        yield "No request of at least half of that, and no other reservation, gives it more places."
    yield from (f"Note: {note}" for note in advice.notes)
