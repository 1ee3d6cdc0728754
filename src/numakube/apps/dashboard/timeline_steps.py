"""What the flight recorder kept of a pod, as steps for people.

The recorder's documents are what ``/debug/attempts`` serves and bundles contain, so a bundle shows
the same timeline as the scheduler that it was taken from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.apps.dashboard.scheduler_view import Missed, Moment
from numakube.insight.pod_timeline import use_text
from numakube.values.display import zones_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Document = Mapping[str, Any]

_MOST_REFUSALS: Final = 4


def moments_of(flight: Document) -> Iterator[Moment]:
    """Yield the steps of one pod, oldest first."""
    for attempt in flight.get("attempts") or ():
        queued, number = attempt.get("queued") or {}, attempt.get("number", "")
        yield Moment(
            at=str(queued.get("time", "")),
            what=f"queued for attempt {number}",
            detail=str(queued.get("why") or ""),
        )
        for event in attempt.get("events") or ():
            yield _moment(event)
        if dropped := attempt.get("eventsDropped"):
            yield Moment(at=str(queued.get("time", "")), what=f"{dropped} more are not kept")


def missed_in(flight: Document) -> Iterator[Missed]:
    """Yield the predictions about one pod that did not come true."""
    for attempt in flight.get("attempts") or ():
        for event in attempt.get("events") or ():
            if event.get("event") == "mispredicted":
                yield Missed(
                    at=str(event.get("time", "")),
                    node=str(event.get("node", "")),
                    pod=str(flight.get("pod", "")),
                    severity=str(event.get("severity", "")),
                    predicted=use_text(event.get("predicted")),
                    reported=use_text(event.get("reported")),
                )


def _moment(event: Document) -> Moment:
    kind = str(event.get("event", ""))
    what, detail, good = _TELL.get(kind, _told)(event)
    return Moment(at=str(event.get("time", "")), what=what or kind, detail=detail, good=good)


def _told(event: Document) -> tuple[str, str, bool]:
    rest = {key: value for key, value in event.items() if key not in ("time", "event")}
    return "", ", ".join(f"{key} {value}" for key, value in rest.items()), True


def _tried(event: Document) -> tuple[str, str, bool]:
    took = f"in {event.get('seconds', 0) * 1000:.1f} ms"
    nodes = f"{event.get('feasible', 0)} of {event.get('evaluated', 0)} nodes would do"
    if event.get("node"):
        return "chosen", f"{event['node']}; {nodes}, {took}", True
    why = str(event.get("message") or _refusals(event.get("refusals") or ()))
    if nominated := event.get("nominated"):
        why += f" Room is being made on {nominated.get('node', '')}."
    return "tried in vain", f"{why or nodes} ({took})", False


def _refusals(groups: Iterable[Document]) -> str:
    texts = [f"{one.get('nodes', '')} {', '.join(one.get('reasons') or ())}" for one in groups]
    more = f" and {len(texts) - _MOST_REFUSALS} more reasons" if texts[_MOST_REFUSALS:] else ""
    return "; ".join(texts[:_MOST_REFUSALS]) + more


def _reserved(event: Document) -> tuple[str, str, bool]:
    predicted = event.get("predicted")
    expected = f"; expected there: {use_text(predicted)}" if predicted else ""
    anywhere = event.get("anywhereIn")
    if anywhere:
        expected = f"; anywhere in {zones_text(anywhere)}"
    return "reserved", f"{event.get('node', '')}{expected}", True


def _rejected(event: Document) -> tuple[str, str, bool]:
    words = (event.get("node"), event.get("reason"), event.get("message"))
    return "kubelet refused it", ": ".join(str(word) for word in words if word), False


def _mispredicted(event: Document) -> tuple[str, str, bool]:
    both = f"expected {use_text(event.get('predicted'))}; got {use_text(event.get('reported'))}"
    return "mispredicted", both, False


_TELL: Final[Mapping[str, Callable[[Document], tuple[str, str, bool]]]] = {
    "tried": _tried,
    "reserved": _reserved,
    "bound": lambda event: ("bound", str(event.get("node", "")), True),
    "admitted": lambda event: ("kubelet admitted it", str(event.get("node", "")), True),
    "notBound": lambda event: ("not bound", str(event.get("reason", "")), False),
    "rejected": _rejected,
    "observed": lambda event: ("zones reported", use_text(event.get("zones")), True),
    "mispredicted": _mispredicted,
    "ended": lambda event: ("ended", str(event.get("how", "")), True),
}
