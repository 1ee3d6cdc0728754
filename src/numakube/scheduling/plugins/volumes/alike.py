"""Nodes that are alike as far as volumes go, so that each kind is judged once.

What a claim gets on a node depends on the labels that volumes, storage classes and capacities
mention, and on whether the node is the one selected for a claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numakube.api.storage import SELECTED_NODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.storage import PersistentVolume
    from numakube.scheduling.framework.verdicts import Rows
    from numakube.scheduling.plugins.volumes.finding import Finder
    from numakube.scheduling.snapshot.cluster import Snapshot


def alike_rows(finder: Finder, snapshot: Snapshot, rows: Rows) -> tuple[Rows, Rows]:
    """Return one row of each kind, and for each of *rows* the position of its kind."""
    kinds = np.zeros(len(rows), dtype=np.int64)
    for key in sorted(set(_keys(finder))):
        column = snapshot.label(key)
        _, kinds = np.unique(
            kinds * (len(column.values) + 1) + column.codes[rows] + 1, return_inverse=True
        )
    selected = [
        claim.metadata.annotations[SELECTED_NODE]
        for claim in finder.claims.delayed
        if SELECTED_NODE in claim.metadata.annotations
    ]
    for name in selected:
        kinds = kinds * 2 + (rows == snapshot.row_of.get(name, -1))
    _, first, group = np.unique(kinds, return_index=True, return_inverse=True)
    return rows[first], group


def _keys(finder: Finder) -> Iterator[str]:
    """Yield the labels that matter."""
    objects = finder.objects
    for claim in finder.claims.bound:
        volume = objects.volumes.get(claim.spec.volume_name)
        if volume is not None:
            yield from _affinity_keys(volume)
    for claim in finder.claims.delayed:
        for volume in finder.candidates[claim.metadata.key]:
            yield from _affinity_keys(volume)
        made_by = objects.storage_classes.get(claim.class_name)
        if made_by is None:
            continue
        for topology in made_by.allowed_topologies:
            yield from (one.key for one in topology.match_label_expressions)
        driver = objects.csi_drivers.get(made_by.provisioner)
        if driver is not None and driver.spec.storage_capacity:
            for capacity in objects.csi_capacities.values():
                if capacity.node_topology is not None:
                    yield from capacity.node_topology.match_labels
                    yield from (one.key for one in capacity.node_topology.match_expressions)


def _affinity_keys(volume: PersistentVolume) -> Iterator[str]:
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        for term in affinity.required.node_selector_terms:
            yield from (one.key for one in term.match_expressions)
