"""Devices that stand for resources of the node, and what a pod asks for as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from numakube_conformance.dra_replay import answer

_GATES = {"DRANodeAllocatableResources": True}


def _verdict(requests: dict[str, str], limits: dict[str, str]) -> dict[str, Any]:
    mapping = {"mapping": {"deviceMultiplier": "2"}}
    device = {"name": "a", "nodeAllocatableResources": {"cpu": mapping}}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    own = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}, "claims": [{"name": "x"}]}
    level = {"requests": requests, "limits": limits}
    request = {"name": "r", "exactly": {"deviceClassName": "cpu", "count": 1}}
    row = {
        "id": "own",
        "layer": "plugin",
        "gates": _GATES,
        "nodes": [
            {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "pods": "9"}}}
        ],
        "slices": [
            {
                "metadata": {"name": "s"},
                "spec": {"driver": "d", "nodeName": "n", "pool": pool, "devices": [device]},
            }
        ],
        "classes": [{"metadata": {"name": "cpu"}, "spec": {}}],
        "claims": [
            {
                "metadata": {"name": "c", "namespace": "ns", "uid": "c"},
                "spec": {"devices": {"requests": [request]}},
            }
        ],
        "steps": [
            {
                "op": "schedule",
                "upTo": "filter",
                "pod": {
                    "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
                    "spec": {
                        "containers": [{"name": "main", "resources": own}],
                        "resourceClaims": [{"name": "x", "resourceClaimName": "c"}],
                        "resources": level,
                    },
                },
            }
        ],
    }
    verdict: dict[str, Any] = answer(row)["expect"][0]["nodes"]["n"]
    return verdict


@pytest.mark.parametrize(
    ("request_", "limit", "words"),
    [
        ("3", "3", ""),
        ("2", "3", "pod level request for cpu is insufficient to cover the aggregated container"),
        ("3", "2", "pod level limit for cpu is insufficient to cover the limit and DRA overhead"),
    ],
)
def test_what_the_pod_asks_for_as_a_whole_covers_its_claims(
    request_: str, limit: str, words: str
) -> None:
    """One CPU of the container, and two that the device stands for."""
    verdict = _verdict({"cpu": request_}, {"cpu": limit})
    if not words:
        assert verdict == {"code": "Success"}
    else:
        assert verdict["reasons"][0].startswith(words)
