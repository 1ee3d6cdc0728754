"""Zones of a node whose pods come and go are what the kubelet model says, whatever they are."""

from __future__ import annotations

from hypothesis import assume, given, settings
from tests.apps.exporter.build import figures, inputs_of
from tests.apps.exporter.model_zones import model_zones
from tests.kubelet.scenarios import workloads

from numakube.api.pod import Pod
from numakube.apps.exporter.kubelet_checkpoints import is_half_written
from numakube.apps.exporter.report_options import ReportOptions
from numakube.apps.exporter.zone_accounting import zones_of
from numakube.kubelet.kubelet_model import KubeletNode


@settings(max_examples=40)
@given(workloads())
def test_zones_are_what_the_model_has_left_after_every_step(
    case: tuple[KubeletNode, list[Pod | str]],
) -> None:
    """Init containers, sidecars, memory groups, devices on several NUMA nodes: all counted once.

    The state files still name pods that are gone, as the kubelet's do until its next admission.
    """
    node, steps = case
    # Before 1.32 a pod's memory groups may overlap; what is left when it goes is then up to the
    # order in which Go walks a map.
    assume(node.behaviour.memory_group_rule)
    pods: dict[str, Pod] = {}
    for step in steps:
        if isinstance(step, str):
            node.remove(step)
        else:
            pods[step.metadata.uid] = step
            node.admit(step)
        read = inputs_of(node, pods)
        table = zones_of(read, read.pods, ReportOptions())
        assert figures(table.zones) == model_zones(node)
        assert not is_half_written(read.checkpoints, read.allocatable.cpu_ids)
