"""Short ways to take a node through a report and to compare what both then answer."""

from __future__ import annotations

from dataclasses import replace

from numakube.api.pod import Pod
from numakube.kubelet.admission_outcome import Admitted, Rejected
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.topology.exact_report import ExactReport
from numakube.topology.model_report import node_of, remove_pod, report_of
from numakube.topology.report_codec import decode_report, encode_report


def through_text(node: KubeletNode) -> KubeletNode:
    """Return the model that a reader of the node's report has."""
    report = decode_report(encode_report(report_of(node)))
    assert isinstance(report, ExactReport), report
    rebuilt = node_of(report)
    assert isinstance(rebuilt, KubeletNode), rebuilt
    return rebuilt


def run(node: KubeletNode, steps: list[Pod | str]) -> list[object]:
    """Perform the steps of a workload and return what was answered."""
    answers: list[object] = []
    for step in steps:
        if isinstance(step, str):
            remove_pod(node, step)
        else:
            answers.append(by_position(node, node.admit(step)))
    return answers


def by_position(node: KubeletNode, outcome: Admitted | Rejected) -> Admitted | Rejected:
    """Return *outcome* with each device named by its position among those of its resource."""
    if isinstance(outcome, Rejected):
        return outcome
    positions = {
        name: {one.id: f"{index}" for index, one in enumerate(node.devices.devices_of(name))}
        for name in node.devices.resources()
    }
    return replace(
        outcome,
        containers={
            name: replace(
                one,
                devices={
                    resource: tuple(positions[resource][device] for device in ids)
                    for resource, ids in one.devices.items()
                },
            )
            for name, one in outcome.containers.items()
        },
    )
