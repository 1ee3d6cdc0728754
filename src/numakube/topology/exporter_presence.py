"""Whether anybody keeps a report up to date: what the pod of its exporter tells.

Our exporter says in each report which pod it runs in. Every reader knows the pods of a node, so
that nobody has to write heartbeats for others to see that it is gone. Exporters that do not run in
a pod, and those of other projects, do not say: then nothing is known.

When the exporter is gone, its last report still names pods. The API server knows which of them are
gone, too; those hold nothing any more.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from numakube.api.pod import has_ended
from numakube.errors import InvalidValue
from numakube.topology.foreseen_holdings import current_view, unknown_pods
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from numakube.api.pod import Pod
    from numakube.topology.topology_view import NodeTopology

GRACE_SECONDS: Final = 45.0
"""How long an exporter may take to start: one that is replaced is no trouble."""

_GENERATED: Final = re.compile("-[a-z0-9]{5}$")
"""What the API server adds to the names of pods that are created by a DaemonSet."""


def current_state(
    view: NodeTopology, pods: Collection[Pod], *, now: datetime | None
) -> NodeTopology:
    """Return *view* with what is known besides its report.

    Args:
        view: what a report says.
        pods: those that the API has on the node, ended ones too.
        now: the time; ``None`` if it is not known.
    """
    if trouble := trouble_with(view.exporter, pods, now=now):
        gone = len(unknown_pods(view.report, pods)) if view.report is not None else 0
        are = "pods that are" if gone > 1 else "pod that is"
        names = f"; its report names {gone} {are} gone" if gone else ""
        view = replace(view, orphaned=trouble + names)
    return current_view(view, pods)


def trouble_with(exporter: str, pods: Iterable[Pod], *, now: datetime | None = None) -> str:
    """Return why nobody keeps the report of *exporter* up to date; empty if somebody does.

    Args:
        exporter: the pod that wrote the report, ``namespace/name``; empty if that is not known.
        pods: those of the node.
        now: the time; exporters that have just been started have no trouble then.
    """
    if not exporter:
        return ""
    there = [pod for pod in pods if is_exporter(pod, exporter)]
    if not there:
        return f"its exporter, pod {exporter}, is gone"
    if any(is_ready(pod) or _is_young(pod, now) for pod in there):
        return ""
    return f"its exporter, pod {there[0].metadata.key}, is not ready"


def is_exporter(pod: Pod, exporter: str) -> bool:
    """Tell whether *pod* is *exporter*, or one that takes its place, and has not ended."""
    return not has_ended(pod) and is_named_like(pod, exporter)


def is_named_like(pod: Pod, exporter: str) -> bool:
    """Tell whether *pod* has the name of *exporter*, or of a pod of the same DaemonSet."""
    return _workload(pod.metadata.key) == _workload(exporter)


def is_ready(pod: Pod) -> bool:
    """Tell whether *pod* is ready, as far as its status says."""
    conditions = pod.status.conditions if pod.status else ()
    return all(condition.status == "True" for condition in conditions if condition.type == "Ready")


def _workload(pod: str) -> str:
    """Return what the names of a DaemonSet's pods have in common; of others, the name."""
    return _GENERATED.sub("", pod)


def _is_young(pod: Pod, now: datetime | None) -> bool:
    """Tell whether *pod* was created a moment ago, or has been ready until a moment ago."""
    conditions = pod.status.conditions if pod.status else ()
    changed = (
        condition.last_transition_time for condition in conditions if condition.type == "Ready"
    )
    return any(_is_recent(one, now) for one in (pod.metadata.creation_timestamp, *changed))


def _is_recent(text: str | None, now: datetime | None) -> bool:
    try:
        return now is not None and (now - parse_time(text or "")).total_seconds() < GRACE_SECONDS
    except InvalidValue:
        return False
