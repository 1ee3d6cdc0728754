"""Which extended resources claims serve in a cluster (KEP-5004), and the claim of one pod for them.

Kubernetes 1.34 and 1.35 have the feature behind a gate. A server whose gate is off drops the names
of extended resources from device classes, so a class that has kept one tells that the gate is on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.dra.extended_resources import classes_by_resource, is_served_name, pod_claim

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.plugins.dynamic_resources.claim_tracker import ClaimTracker
    from numakube.scheduling.plugins.dynamic_resources.cycle_claims import CycleClaims
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.pods import PodInfo

GATE: Final = "DRAExtendedResource"


class ServedResources:
    """The class that serves each extended resource, where the feature is on."""

    def __init__(self, *, on: bool, detects: bool) -> None:
        """Prepare for a cluster where the feature is *on*, or *detects* it from the classes."""
        self._on = on
        self._detects = detects
        self._sources: tuple[object, ...] = ()
        self._classes: Mapping[str, str] = {}

    def classes(self, objects: ClusterObjects) -> Mapping[str, str]:
        """Return the name of the class by resource; empty while the feature is off."""
        if not objects.device_classes:
            return {}
        sources = objects.device_classes, objects.device_classes.version
        if sources != self._sources:
            classes = list(objects.device_classes.values())
            named = any(one.spec.extended_resource_name for one in classes)
            on = self._on or (self._detects and named)
            self._classes = classes_by_resource(classes) if on else {}
            self._sources = sources
        return self._classes

    def add_claim(self, known: CycleClaims, pod: PodInfo, tracker: ClaimTracker) -> None:
        """Add the claim for extended resources if a class serves one of those that *pod* wants."""
        classes = self.classes(known.objects)
        if not any(
            amount and is_served_name(name) and name in classes
            for name, amount in pod.requests.items()
        ):
            return
        claim = pod_claim(pod.pod, tracker.all(known.objects), uid=f"extended-{pod.uid}")
        known.extended = len(known.claims)
        known.extended_uid = claim.metadata.uid
        known.claims.append(claim)
