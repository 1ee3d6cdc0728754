"""The answer in a sentence or two, and what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.insight.collected import SCHEDULER, TOPOLOGIES
from numakube.insight.list_reading import rights_text
from numakube.insight.unknown_zones import nothing_known
from numakube.scheduling.plugins.pod_gangs import group_named_by

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numakube.api.pod import Pod
    from numakube.insight.explain.explanation_document import PodPlacement, PodSummary
    from numakube.insight.explain.node_verdicts import Judgement
    from numakube.insight.facts import ClusterFacts
    from numakube.insight.list_reading import Unreadable

_WAITS: Final = " If it still waits, the scheduler has not tried it since: is it running?"


def summary_of(
    pod: PodSummary,
    judgement: Judgement,
    placement: PodPlacement | None,
    *,
    gates: str = "",
    unknown: str = "",
) -> str:
    """Return the whole answer in short.

    *gates* are the pod's scheduling gates; *unknown* says why it is not known whether it fits.
    """
    if placement is not None:
        where = f"It runs on {pod.node}." if pod.state == "running" else f"Bound to {pod.node}."
        return " ".join((where, *placement.words))
    now = _now(pod, judgement, gates, unknown)
    if pod.state == "rejected":
        words = f"The kubelet of {pod.node} rejected it: {pod.reason}: {pod.message}"
        return f"{words.rstrip('.')}. {now}"
    if pod.state == "ended":
        reason = f" ({pod.reason})" if pod.reason else ""
        return f"It has ended{reason}. {now}"
    return now


def _now(pod: PodSummary, judgement: Judgement, gates: str, unknown: str) -> str:
    again = pod.state in ("rejected", "ended")
    one = "A pod like it" if again else "It"
    if gates:
        then = _now(pod, judgement, "", unknown)
        waits = f"{one} is not tried while it has scheduling gates ({gates})."
        return f"{waits} Without them, {then[0].lower()}{then[1:]}"
    if judgement.held is not None:
        return f"{one} is not tried: {judgement.held.message}."
    if not judgement.total:
        return "There are no nodes."
    if pod.unserved:
        then = _now(msgspec.structs.replace(pod, unserved=""), judgement, "", unknown)
        stop = "" if pod.unserved.endswith("?") else "."
        return (
            f"Nobody schedules it: {pod.unserved}{stop} Were there one: {then[0].lower()}{then[1:]}"
        )
    count = len(judgement.fitting) + judgement.unchecked
    if unknown:
        room = f"{count} of {judgement.total} nodes {'has' if count == 1 else 'have'} room"
        room = "the only node has room" if judgement.total == 1 else room
        return (
            f"Whether {one[0].lower()}{one[1:]} fits is not known: {unknown}."
            f" By amounts of whole nodes alone, {room}."
        )
    if judgement.fits:
        now = " now" if again else ""
        chosen = judgement.fitting[0]
        waits = f" But {pod.untried} (kubectl numa doctor)." if pod.untried else _WAITS
        ending = waits if pod.state == "waiting" and pod.ours else ""
        if judgement.total == 1:
            return f"{one} fits{now} on the only node, {chosen}.{ending}"
        return f"{one} fits{now} on {count} of {judgement.total} nodes; best is {chosen}.{ending}"
    none = f"{one} fits on none of {judgement.total} nodes"
    if judgement.total == 1:
        none = f"{one} does not fit on the only node"
    if judgement.nomination is not None:
        return f"{none} yet; the scheduler makes room on {judgement.nomination.node}."
    return f"{none}."


def notes_of(
    facts: ClusterFacts,
    pod: PodSummary,
    summary: str,
    profiles: Collection[str],
    unaligned: tuple[str, ...],
) -> tuple[str, ...]:
    """Return what is to be known about the answer besides its *summary*."""
    notes = list(unaligned)
    if pod.state == "planned" and pod.node:
        notes.append(
            f"It names its node itself: no scheduler looks at it, the kubelet of {pod.node} decides"
            " alone."
        )
    inside = [fact for fact in facts.unreadable if fact.what.partition("/")[0] == SCHEDULER]
    if pod.unserved:
        notes.append(f"The verdict is that of {', '.join(profiles)}.")
    elif not pod.ours:
        notes.append(_foreign(pod, ", ".join(profiles), inside))
    elif inside and not facts.schedulers:
        notes.append(f"It is judged by the usual configuration: {_silence(inside)}.")
    blind = nothing_known(facts)
    if blind and blind not in summary:
        notes.append(f"{blind[0].upper()}{blind[1:]}.")
    return (*notes, *unread_notes(facts))


def gang_note(pod: Pod) -> tuple[str, ...]:
    """Say which gang *pod* belongs to, and where to read about the others."""
    group = group_named_by(pod)
    if group is None:
        return ()
    _, namespace, name = group
    ask = f"kubectl numa explain podgroup {name} -n {namespace}"
    return (f"It belongs to gang {namespace}/{name}, whose pods run together: {ask}",)


def _foreign(pod: PodSummary, ours: str, inside: list[Unreadable]) -> str:
    """Return who decides about a pod that names another scheduler, as far as that is known."""
    asks = f"The pod asks for the scheduler {pod.scheduler}"
    if inside:
        silence = _silence(inside)
        return f"{asks}, of which nothing is known: {silence}. This is what {ours} would do."
    return f"{asks}, which decides by itself; this is what {ours} would do."


def _silence(inside: list[Unreadable]) -> str:
    reasons = dict.fromkeys(unreadable.why for unreadable in inside)
    return f"no scheduler could be asked ({'; '.join(reasons)})"


def unread_notes(facts: ClusterFacts) -> Iterator[str]:
    """Yield what was not taken into account: what was refused in one line, the rest one by one."""
    kinds = [fact for fact in facts.unreadable if fact.what.partition("/")[0] != SCHEDULER]
    lacking = [kind for kind in kinds if kind.right and kind.what != TOPOLOGIES]
    if lacking:
        yield f"Not taken into account, since you may not (403): {rights_text(lacking)}."
    for kind in kinds:
        if not kind.right and kind.what != TOPOLOGIES:
            yield f"Not taken into account: {kind.what} ({kind.why})."
