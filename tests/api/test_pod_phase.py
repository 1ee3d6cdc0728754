"""How a pod ended, and whose doing it was."""

from __future__ import annotations

import pytest

from numakube.api.kubelet_rejections import is_rejected
from numakube.api.pod import Pod, PodSpec, PodStatus, has_ended


def ended(phase: str, reason: str, *, node: str = "n1") -> Pod:
    """Return a pod as the API server has it."""
    return Pod(spec=PodSpec(node_name=node), status=PodStatus(phase=phase, reason=reason))


@pytest.mark.parametrize(
    ("phase", "reason", "expected"),
    [
        ("Failed", "TopologyAffinityError", True),
        ("Failed", "Topology Affinity Error", True),
        ("Failed", "UnexpectedAdmissionError", True),
        ("Failed", "SMTAlignmentError", True),
        ("Failed", "OutOfcpu", True),
        ("Failed", "NodeAffinity", True),
        ("Failed", "Preempting", False),
        ("Failed", "Evicted", False),
        ("Failed", "", False),
        ("Succeeded", "TopologyAffinityError", False),
        ("Running", "", False),
    ],
)
def test_a_rejection_is_told_from_other_ends(phase: str, reason: str, *, expected: bool) -> None:
    """A program that fails, or that gives way to another, is not rejected."""
    assert is_rejected(ended(phase, reason)) is expected
    assert not is_rejected(ended(phase, reason, node=""))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [(Pod(), False), (ended("Running", ""), False), (ended("Failed", ""), True),
     (ended("Succeeded", ""), True)],
)  # fmt: skip
def test_a_pod_has_ended_once_all_its_containers_have(pod: Pod, *, expected: bool) -> None:
    """Whether well or not."""
    assert has_ended(pod) is expected
