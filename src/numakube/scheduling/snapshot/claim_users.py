"""How many pods on nodes use each claim; a claim for one pod only must not get a second one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.scheduling.snapshot.pods import PodInfo


class ClaimUsers:
    """Pods by claim (``namespace/name``)."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def is_used(self, claim: str) -> bool:
        """Tell whether a pod on any node uses *claim*."""
        return self._counts[claim] > 0

    def add(self, pod: PodInfo) -> None:
        """Take into account that *pod* runs."""
        self._counts.update(_claims(pod))

    def remove(self, pod: PodInfo) -> None:
        """Take back an `add`."""
        for claim in _claims(pod):
            self._counts[claim] -= 1
            if not self._counts[claim]:
                del self._counts[claim]


def _claims(pod: PodInfo) -> Iterator[str]:
    for volume in pod.pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
