"""Recorded kubelets are predicted from reports alone."""

from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec
import pytest
from tests.docs.pages import ROOT
from tests.topology.reports import by_position, through_text

from numakube.api.pod import Pod
from numakube.errors import KubeletStartError
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.cadvisor_machine import from_cadvisor, read_devices
from numakube.topology.model_report import remove_pod
from numakube_conformance.kubelet_replay import read_settings

VECTORS = ROOT / "tests" / "vectors" / "kubelet.jsonl.gz"
# A fifth of the scenarios, in parts that run side by side.
STEP = 20
PARTS = range(4)


def scenarios(part: int) -> list[dict[str, Any]]:
    """Return one part of the recorded scenarios."""
    with gzip.open(VECTORS, "rt") as lines:
        return [json.loads(line) for number, line in enumerate(lines) if number % STEP == part]


def begin(scenario: dict[str, Any]) -> KubeletNode | None:
    """Return the scenario's kubelet, unless it does not start."""
    try:
        return KubeletNode(
            from_cadvisor(scenario["machine"]),
            read_settings(scenario["kubelet"]),
            devices=read_devices(scenario.get("devices") or {}),
        )
    except KubeletStartError:
        return None


@pytest.mark.parametrize("part", PARTS)
def test_a_model_that_is_rebuilt_before_every_step_answers_as_one_that_is_not(part: int) -> None:
    """The machines of the recordings are odder than most real ones."""
    for scenario in scenarios(part):
        node = begin(scenario)
        if node is None:
            continue
        for step in scenario["steps"]:
            if step["op"] == "remove":
                node.remove(step["uid"])
                continue
            wanted = msgspec.convert(step["pod"], Pod)
            rebuilt = through_text(node)
            remove_pod(rebuilt, wanted.metadata.uid)
            predicted = by_position(rebuilt, rebuilt.admit(wanted))
            assert predicted == by_position(node, node.admit(wanted)), scenario["id"]
