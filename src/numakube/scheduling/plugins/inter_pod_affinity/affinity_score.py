"""Preferences of the pod and of those that run, summed up by domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.plugins.inter_pod_affinity.affinity_filter import pods_of, resolved
from numakube.scheduling.plugins.inter_pod_affinity.topology_domains import DomainAmounts
from numakube.scheduling.snapshot.pod_counts import PodQuery
from numakube.scheduling.snapshot.pod_terms import NO_LABELS, terms_of
from numakube.scheduling.snapshot.term_counts import TermKind

if TYPE_CHECKING:
    from numakube.scheduling.arrays import IntArray
    from numakube.scheduling.plugins.plugin_arguments import InterPodAffinityArgs
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.pod_counts import Counts
    from numakube.scheduling.snapshot.pods import PodInfo


def preferences(
    pod: PodInfo, snapshot: Snapshot, args: InterPodAffinityArgs
) -> DomainAmounts | None:
    """Return what each domain is worth, or ``None`` if no term is about anything there is."""
    own = terms_of(pod).preferences
    if args.ignore_preferred_terms_of_existing_pods and not own:
        return None
    worth, found = DomainAmounts(snapshot), False
    if own:
        for term, weight in resolved(terms_of(pod), snapshot.objects).preferences:
            counts = snapshot.pods.counts.counts(PodQuery((pods_of(term),)))
            if _is_there(counts, term.topology_key, snapshot):
                worth.add_all(term.topology_key, counts * weight)
                found = True
    if not snapshot.pods.terms.is_empty:
        found |= _of_running(pod, snapshot, args, worth)
    return worth if found else None


def _of_running(
    pod: PodInfo, snapshot: Snapshot, args: InterPodAffinityArgs, worth: DomainAmounts
) -> bool:
    """Add what running pods prefer; tell whether there was anything."""
    labels = snapshot.objects.namespace_labels.get(pod.namespace, NO_LABELS)
    view = snapshot.pods.terms.about(pod, labels)
    found = False
    for key, sums in view.of(TermKind.PREFERENCE):
        if _is_there(sums.hits, key, snapshot):
            worth.add_all(key, sums.weight)
            found = True
    if args.hard_pod_affinity_weight > 0:
        for key, sums in view.of(TermKind.AFFINITY):
            if _is_there(sums.hits, key, snapshot):
                worth.add_all(key, sums.hits * args.hard_pod_affinity_weight)
                found = True
    return found


def _is_there(counts: Counts, key: str, snapshot: Snapshot) -> bool:
    """Tell whether any pod counted is on a node that has the topology key."""
    rows = np.flatnonzero(counts)
    return bool(len(rows)) and bool(snapshot.label(key).present(rows).any())


def normalized(scores: IntArray) -> IntArray:
    """Return *scores* stretched so that the worst gets nothing and the best everything."""
    if not len(scores):
        return scores
    least, largest = int(scores.min()), int(scores.max())
    if least == largest:
        return np.zeros_like(scores)
    share = (scores - least).astype(np.float64) / float(largest - least)
    return (float(MAX_NODE_SCORE) * share).astype(np.int64)
