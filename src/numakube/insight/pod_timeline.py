"""The story of one pod in lines of text, from what flight recorders know.

Input are documents of ``/debug/pods`` (or the items of ``/debug/attempts?full=true``), as described
in ``docs/reference/debug-endpoints.md``; whatever is missing in them is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.values.display import held_quantities_text, zones_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Document = Mapping[str, Any]

_CLOCK: Final = slice(11, 23)
"""The time of day in an RFC 3339 text, to the millisecond."""
_INDENT: Final = " " * 27
_CANDIDATES: Final = 3


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
        queued = attempt["queued"]
        yield _line(queued["time"], "queued", queued["why"])
        predicted: object = None
        for event in attempt["events"]:
            if event["event"] == "reserved":
                predicted = event.get("predicted")
            yield from _event(event, predicted)
        if attempt.get("eventsDropped"):
            yield f"{_INDENT}{attempt['eventsDropped']} more events were not kept"


def _line(time: str, what: str, text: str) -> str:
    return f"  {time[_CLOCK]}  {what:<12} {text}".rstrip()


def _event(event: Document, predicted: object) -> Iterator[str]:
    name = str(event["event"])
    if name == "tried":
        yield _line(event["time"], "tried", _outcome(event))
        yield from (_INDENT + line for line in _details(event))
        return
    yield _line(event["time"], _WORDS.get(name, name), _sentence(name, event, predicted))


_WORDS: Final = {"notBound": "not bound", "mispredicted": "MISPREDICTED"}


def _sentence(name: str, event: Document, predicted: object) -> str:
    node = event.get("node", "")
    match name:
        case "reserved":
            return f"on {node}: {_expectation(event)}"
        case "bound":
            return f"to {node}"
        case "notBound":
            return str(event["reason"])
        case "admitted":
            return f"by the kubelet of {node}"
        case "rejected":
            return f"by the kubelet of {node}: {event['reason']}: {event['message']}"
        case "observed":
            same = ", as predicted" if predicted == event["zones"] else ""
            return f"on {node}: {use_text(event['zones'])}{same}"
        case "mispredicted":
            before, after = use_text(event["predicted"]), use_text(event["reported"])
            return f"on {node}: predicted {before}, got {after}"
        case "ended":
            return str(event["how"])
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
    took = f"in {1000 * event['seconds']:.1f} ms"
    fit = f"{event['feasible']} of {event['evaluated']} nodes fit, {took}"
    asked = f"{event['by']}: " if event.get("by") else ""
    match event["result"]:
        case "chosen":
            return f"chose {event['node']}; {fit}"
        case "feasible":
            return f"{asked}{fit}"
        case "failed":
            return f"{asked}failed: {event['message']}"
        case _:
            again = "; nothing had changed since the last refusal" if event["remembered"] else ""
            return f"{asked}none of {event['evaluated']} nodes fits, {took}{again}"


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
    nodes, examples = refusal["nodes"], list(refusal["examples"])
    where = ", ".join(examples) + (", ..." if nodes > len(examples) else "")
    model = "the kubelet model, " if refusal["byKubeletModel"] else ""
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
