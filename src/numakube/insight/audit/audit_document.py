"""An audit as a document, and in lines of text.

Fields are only ever added; docs/reference/audit.md describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue
from numakube.insight.explain.explanation_document import Document
from numakube.values.display import age_text, counted
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence

TITLES: Final = ("NAMESPACE", "POD", "NODE", "ZONES", "SINCE", "CAUSE", "ALIGNED ON", "WHY")
MORE: Final = ("CONTROLLER", "PREDICTED", "IS")
_FEW: Final = 2


class AuditedPod(Document, frozen=True):
    """A pod that wants alignment and does not have it.

    Attributes:
        controller: its controller, as ``kind/name``; empty for a bare pod.
        fewest: on how many zones it could be on an idle node; 0 if that is not known.
        since: when its kubelet admitted it, in RFC 3339.
        predicted: what its scheduler expected, according to a flight recorder.
        actual: what it has, by zone.
        better: nodes that would align it now, its own among them.
    """

    namespace: str
    name: str
    controller: str = ""
    scheduler: str = ""
    node: str = ""
    policy: str = ""
    zones: tuple[int, ...] = ()
    fewest: int = 0
    cause: str = ""
    why: str = ""
    since: str = ""
    predicted: str = ""
    actual: str = ""
    better: tuple[str, ...] = ()


class UnknownPod(Document, frozen=True):
    """A pod that wants alignment; whether it has it is unknown."""

    namespace: str
    name: str
    node: str
    why: str


class Audit(Document, frozen=True, kw_only=True):
    """The audit of a cluster, or of some of its pods.

    Attributes:
        wanting: how many pods want alignment.
        aligned: how many of them have it.
    """

    api_version: str = "insight.numakube.dev/v1alpha1"
    kind: str = "AlignmentAudit"
    taken_at: str = ""
    wanting: int = 0
    aligned: int = 0
    misaligned: tuple[AuditedPod, ...] = ()
    unknown: tuple[UnknownPod, ...] = ()


def row(pod: AuditedPod, taken_at: str, *, wide: bool) -> list[str]:
    """Return the cells of a pod."""
    cells = [
        pod.namespace,
        pod.name,
        pod.node,
        "+".join(map(str, pod.zones)),
        _age(pod.since, taken_at),
        pod.cause,
        _listed(pod.better),
        pod.why,
    ]
    return [*cells, pod.controller, pod.predicted, pod.actual] if wide else cells


def summary(audit: Audit) -> str:
    """Return the whole audit in a sentence or two."""
    if not audit.wanting:
        return "No pod wants alignment."
    wanting = counted(audit.wanting, "pod")
    known = f"{audit.aligned} of {wanting} that want alignment have it"
    parts = [known]
    if audit.misaligned:
        movable = sum(bool(pod.better) for pod in audit.misaligned)
        parts.append(f"{len(audit.misaligned)} do not, {movable} of them would if placed again")
    if audit.unknown:
        parts.append(f"of {len(audit.unknown)} it is not known ({audit.unknown[0].why})")
    return "; ".join(parts) + "."


def _listed(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - _FEW} more" if nodes[_FEW:] else ""
    return ", ".join(nodes[:_FEW]) + more


def _age(since: str, taken_at: str) -> str:
    try:
        return age_text((parse_time(taken_at) - parse_time(since)).total_seconds())
    except InvalidValue:
        return ""
