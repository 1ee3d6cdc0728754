"""Whether a node's report is of the pods that the API server knows: pods on one side only.

An exact report names the pods that it accounts for; other producers leave a fingerprint, which
says whether the sets agree but not where they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from numakube.topology.exact_report import uid_hash
from numakube.topology.exclusive_pods import has_exclusive_resources
from numakube.topology.fingerprint import fingerprint_of
from numakube.topology.view import FingerprintMethod, NodeTopology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.api.pod import Pod
    from numakube.topology.view import Unusable


class Agreement(StrEnum):
    """Whether a report and the API server tell of the same pods."""

    SAME = "same pods"
    DIFFERENT = "other pods"
    UNKNOWN = "not told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """A report's pods against those of the API server.

    Attributes:
        fingerprint: the report's; empty if it has none.
        expected: that of the pods which the API server knows on the node.
        method: of which pods fingerprints are.
        only_in_report: hashes of the uids of pods that only the report knows.
        only_in_cluster: pods that only the API server knows.
    """

    agreement: Agreement
    fingerprint: str = ""
    expected: str = ""
    method: str = ""
    only_in_report: tuple[str, ...] = ()
    only_in_cluster: tuple[Pod, ...] = ()


def sides_of(view: NodeTopology | Unusable | None, pods: Sequence[Pod]) -> Sides:
    """Compare a report with the *pods* that the API server knows on the node and that run."""
    if not isinstance(view, NodeTopology):
        return Sides(agreement=Agreement.UNKNOWN)
    told, expected = view.fingerprint, ""
    extra: tuple[str, ...] = ()
    missing: tuple[Pod, ...] = ()
    agreement = Agreement.UNKNOWN
    if told is not None:
        expected = fingerprint_of(_fingerprinted(view, pods))
        agreement = Agreement.SAME if told == expected else Agreement.DIFFERENT
    if view.report is not None:
        known = {uid_hash(pod.metadata.uid) for pod in pods}
        extra = tuple(sorted(view.report.pods.keys() - known))
        missing = tuple(pod for pod in pods if not view.report.accounts_for(pod.metadata.uid))
        agreement = Agreement.DIFFERENT if extra or missing else Agreement.SAME
    return Sides(
        agreement=agreement,
        fingerprint=told or "",
        expected=expected,
        method=view.fingerprint_method.value,
        only_in_report=extra,
        only_in_cluster=missing,
    )


def _fingerprinted(view: NodeTopology, pods: Sequence[Pod]) -> list[tuple[str, str]]:
    """Return namespace and name of the pods that the report's fingerprint is of."""
    if view.fingerprint_method is not FingerprintMethod.ALL:
        listed = {name for zone in view.zones for name in zone.available}
        pods = [pod for pod in pods if has_exclusive_resources(pod, listed)]
    return [(pod.metadata.namespace, pod.metadata.name) for pod in pods]
