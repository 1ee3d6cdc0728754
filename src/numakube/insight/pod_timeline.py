"""The story of one pod, from what flight recorders know: in lines of text, and as steps.

Input are documents of ``/debug/pods`` (or the items of ``/debug/attempts?full=true``), as described
in ``docs/reference/debug-endpoints.md``; whatever is missing in them is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from numakube.values.display import held_quantities_text, zones_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Document = Mapping[str, Any]

_CLOCK: Final = slice(11, 23)
"""The time of day in an RFC 3339 text, to the millisecond."""
_INDENT: Final = " " * 27
_CANDIDATES: Final = 3


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """One step on a pod's way.

    Attributes:
        at: when, as RFC 3339.
        what: the step in a word or two.
        text: what came of it.
        details: what else is known of it.
        good: ``False`` for a setback.
    """

    at: str
    what: str
    text: str = ""
    details: tuple[str, ...] = ()
    good: bool = True


def timeline(flight: Document, *, source: str = "") -> Iterator[str]:
    """Yield the lines of one pod's story.

    Args:
        flight: what one recorder knows of one pod.
        source: who recorded it.
    """
    kept, count = len(flight.get("attempts") or ()), flight.get("attemptCount", 0)
    by = f", recorded by {source}" if source else ""
    yield f"{flight['pod']} (uid {flight['uid']}), first seen {flight['firstSeen']}{by}"
    if count > kept:
        yield f"{count} attempts; the last {kept} are kept"
    for attempt in flight.get("attempts") or ():
        yield f"attempt {attempt['number']}"
        for step in _steps(attempt):
            what = step.what.upper() if step.what == _MISPREDICTED else step.what
            yield f"  {step.at[_CLOCK]}  {what:<12} {step.text}".rstrip()
            yield from (_INDENT + line for line in step.details)
        if dropped := attempt.get("eventsDropped"):
            yield f"{_INDENT}{_dropped(dropped)}"


def steps_of(flight: Document) -> Iterator[TimelineStep]:
    """Yield the steps of one pod, oldest first; of each attempt how often it had been tried."""
    for attempt in flight.get("attempts") or ():
        queued, *others = _steps(attempt)
        yield replace(queued, what=f"{queued.what} for attempt {attempt.get('number', '')}")
        yield from others
        if dropped := attempt.get("eventsDropped"):
            yield TimelineStep(queued.at, _dropped(dropped))


def _dropped(number: int) -> str:
    return f"{number} more events were not kept"


def _steps(attempt: Document) -> Iterator[TimelineStep]:
    """Yield that the pod was queued, and every event of the attempt."""
    queued = attempt.get("queued") or {}
    yield TimelineStep(str(queued.get("time", "")), "queued", str(queued.get("why") or ""))
    predicted: object = None
    for event in attempt.get("events") or ():
        if event.get("event") == "reserved":
            predicted = event.get("predicted")
        yield step_of(event, predicted)


_WORDS: Final = {"notBound": "not bound"}
_MISPREDICTED: Final = "mispredicted"
_SETBACKS: Final = frozenset({"notBound", "rejected", _MISPREDICTED})


def step_of(event: Document, predicted: object = None) -> TimelineStep:
    """Return what *event* of a flight recorder says; *predicted* is what was said before it."""
    name, at = str(event.get("event", "")), str(event.get("time", ""))
    if name == "tried":
        good = event.get("result") in ("chosen", "feasible")
        return TimelineStep(at, name, _outcome(event), tuple(_details(event)), good)
    text = _sentence(name, event, predicted)
    return TimelineStep(at, _WORDS.get(name, name), text, good=name not in _SETBACKS)


def _sentence(name: str, event: Document, predicted: object) -> str:
    node = event.get("node", "")
    match name:
        case "reserved":
            return f"on {node}: {_expectation(event)}"
        case "bound":
            return f"to {node}"
        case "notBound":
            return str(event.get("reason", ""))
        case "admitted":
            return f"by the kubelet of {node}"
        case "rejected":
            words = (event.get("reason"), event.get("message"))
            return ": ".join((f"by the kubelet of {node}", *filter(None, words)))
        case "observed":
            zones = event.get("zones")
            same = ", as predicted" if predicted == zones else ""
            return f"on {node}: {use_text(zones)}{same}"
        case "mispredicted":
            before, after = use_text(event.get("predicted")), use_text(event.get("reported"))
            return f"on {node}: predicted {before}, got {after}"
        case "ended":
            return str(event.get("how", ""))
        case _:
            others = {k: v for k, v in event.items() if k not in ("time", "event")}
            return ", ".join(f"{key} {value}" for key, value in others.items())


def _expectation(event: Document) -> str:
    if event.get("predicted") is not None:
        return f"predicted {use_text(event['predicted'])}"
    places = event.get("anywhereIn") or ()
    if places:
        return f"counts only, somewhere in {zones_text(places)}"
    return "nothing is known of its zones"


def _outcome(event: Document) -> str:
    took = f"in {1000 * event.get('seconds', 0):.1f} ms"
    evaluated = event.get("evaluated", 0)
    fit = f"{event.get('feasible', 0)} of {evaluated} nodes fit, {took}"
    asked = f"{event['by']}: " if event.get("by") else ""
    match event.get("result"):
        case "chosen":
            return f"chose {event['node']}; {fit}"
        case "feasible":
            return f"{asked}{fit}"
        case "failed":
            return f"{asked}failed: {event['message']}"
        case _:
            known = event.get("remembered")
            again = "; nothing had changed since the last refusal" if known else ""
            return f"{asked}none of {evaluated} nodes fits, {took}{again}"


def _details(event: Document) -> Iterator[str]:
    for refusal in event.get("refusals") or ():
        yield from refusal_lines(refusal)
    if event.get("refusalsDropped"):
        yield f"{event['refusalsDropped']} more nodes refused for other reasons"
    for candidate in (event.get("candidates") or ())[:_CANDIDATES]:
        parts = sorted(candidate["scores"].items(), key=lambda item: -item[1])
        scores = ", ".join(f"{plugin} {score}" for plugin, score in parts if score)
        mark = "*" if candidate["node"] == event["node"] else " "
        yield f"{mark}{candidate['node']} scores {candidate['total']}: {scores}"
    nominated = event.get("nominated")
    if nominated:
        yield f"room is made on {nominated['node']} by evicting {', '.join(nominated['victims'])}"


def refusal_lines(refusal: Document) -> Iterator[str]:
    """Yield what nodes that refused for one reason have to say."""
    nodes, examples = refusal["nodes"], list(refusal.get("examples") or ())
    where = ", ".join(examples) + (", ..." if nodes > len(examples) else "")
    model = "the kubelet model, " if refusal.get("byKubeletModel") else ""
    reasons = "; ".join(refusal["reasons"])
    yield f"{nodes} x {reasons} ({model}{refusal['plugin']}: {where})"
    closest = refusal.get("closest")
    if closest and closest.get("detail"):
        yield f"    {closest['detail']}"


def use_text(use: Document | None) -> str:
    """Return what a pod holds where, or how it is refused, in one line."""
    if not use:
        return "nothing known"
    if refused := use.get("refused"):
        words = (refused.get("reason"), refused.get("message"))
        return f"refusal ({': '.join(filter(None, words))})"
    return "; ".join(map(_zone, use.get("zones") or ())) or "nothing exclusively"


def _zone(zone: Document) -> str:
    where = zones_text(zone["ids"]) if zone.get("ids") else "any zone"
    return f"{where}: {held_quantities_text(zone.get('amounts') or {})}"
