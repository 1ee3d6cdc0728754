"""Which changes are suggested for a pod that fits nowhere: the smallest that help, first."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from numakube.insight.explain.changes.annotation_changes import farther_apart
from numakube.insight.explain.changes.claim_changes import claimed_otherwise
from numakube.insight.explain.changes.evictions import evictions
from numakube.insight.explain.changes.larger_requests import larger
from numakube.insight.explain.changes.lifted_rules import combined, lifted
from numakube.insight.explain.changes.node_changes import added, reconfigured, refreshed
from numakube.insight.explain.changes.smaller_requests import smaller
from numakube.insight.explain.plugin_explainer import changes_by_plugins

if TYPE_CHECKING:
    from numakube.insight.explain.explanation_document import Change
    from numakube.insight.explain.node_verdicts import Judgement
    from numakube.insight.explain.what_if import Bench
    from numakube.insight.facts import ClusterFacts

_MOST_CHANGES: Final = 6

ORDER: Final = (
    "scheduling-gates", "refresh-nrt", "preempt", "uncordon", "tolerate", "node-selector",
    "node-affinity", "host-port", "topology-spread", "pod-affinity", "pod-anti-affinity", "volume",
    "whole-cpus", "guaranteed", "numa-scope", "closeness", "offer", "more", "fewer-cpus",
    "less-memory", "fewer-hugepages", "fewer-devices", "fewer-claimed-devices", "claim-constraint",
    "numa-policy", "evict", "less-of-everything", "combined",
    "cpu-option", "scope", "policy", "add-node",
)  # fmt: skip
"""From what costs nothing to what needs a node drained."""


def suggested(bench: Bench, judgement: Judgement, facts: ClusterFacts) -> tuple[Change, ...]:
    """Return the changes that make the pod fit, each one tried, from the smallest on."""
    found = list(
        chain(
            refreshed(bench, judgement, facts),
            lifted(bench, judgement),
            changes_by_plugins(
                bench.pod, (refusal.status for refusal in judgement.refusals), bench.taker
            ),
            farther_apart(bench, judgement),
            claimed_otherwise(bench, judgement),
            smaller(bench),
            larger(bench, judgement),
            evictions(bench, judgement),
            reconfigured(bench, judgement, facts),
            added(bench, judgement, facts),
        )
    )
    if not {change.kind for change in found} - {"add-node"}:
        found += combined(bench, judgement)
    return _foremost(found)


def _foremost(changes: list[Change]) -> tuple[Change, ...]:
    """Return the first few changes, none of a kind twice as long as another kind is left out."""
    ordered = sorted(changes, key=lambda change: ORDER.index(change.kind))
    firsts = {change.kind: change for change in reversed(ordered)}
    rest = [change for change in ordered if change is not firsts[change.kind]]
    kept = [*sorted(firsts.values(), key=ordered.index), *rest][:_MOST_CHANGES]
    return tuple(sorted(kept, key=ordered.index))
