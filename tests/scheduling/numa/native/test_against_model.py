"""What counts say, held against the kubelet model: a refusal is a proof, and few are missed."""

from __future__ import annotations

from hypothesis import given, settings
from tests.kubelet.scenarios import pods, workloads
from tests.scheduling.numa.native.build import counts_of_model

from numakube.api.core import Pod
from numakube.kubelet.node import KubeletNode
from numakube.kubelet.outcome import Admitted
from numakube.scheduling.numa.native.reference import judge
from numakube.scheduling.numa.native.shape import shape_of
from numakube.scheduling.numa.rejection import Rejection


def run(node: KubeletNode, steps: list[Pod | str]) -> None:
    """Perform the steps of a workload."""
    for step in steps:
        if isinstance(step, str):
            node.remove(step)
        else:
            node.admit(step)
    node.collect_garbage()


@settings(max_examples=150)
@given(workloads(), pods("new"))
def test_what_counts_refuse_the_kubelet_refuses(
    case: tuple[KubeletNode, list[Pod | str]], pod: Pod
) -> None:
    """A refusal from counts holds whatever the exact state is."""
    node, steps = case
    run(node, steps)
    verdict = judge(shape_of(pod), counts_of_model(node))
    if isinstance(verdict, Rejection):
        assert verdict.message
        assert not isinstance(node.clone().admit(pod), Admitted), verdict
