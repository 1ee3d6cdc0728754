"""Devices of claims in ``kubectl numa map`` and ``top``, on bundles with names and without."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import Ended
from tests.cli.printed_pages import check_printed
from tests.insight.claim_world import DRIVER, mixed
from tests.insight.explain.bundling import collected_of

from numakube.apps.anonymising.anonymise import anonymise
from numakube.apps.bundle import pack
from numakube.insight.facts import facts_of
from numakube.insight.list_reading import Unreadable, refused


@pytest.mark.parametrize("anonymous", [False, True])
def test_a_bundle_shows_the_same(
    anonymous: bool, numakube: Callable[..., Ended], tmp_path: Path
) -> None:
    """Without names, too: slices, claims and pods still belong together."""
    collected = collected_of(mixed().facts())
    collected = anonymise(collected) if anonymous else collected
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(pack(collected))
    (node,) = facts_of(collected).nodes

    drawn = json.loads(numakube("map", node, "--from", path, "-o", "json").out)
    held = {
        device["position"]: (device["zones"], len(device.get("pods", (device.get("pod"),))))
        for zone in [*drawn["zones"], {"devices": drawn["devicesWithoutZone"]}]
        for device in zone["devices"]
        if device["resource"] == DRIVER and "pod" in device
    }
    assert held == {0: ([0], 2), 3: ([1], 1), 4: ([], 1)}
    assert "gpu.example 2/5" in numakube("top", "--from", path).out
    assert "gpu.example" in numakube("top", "pods", "-A", "--from", path).out


def test_the_page_shows_what_is_drawn(numakube: Callable[..., Ended], tmp_path: Path) -> None:
    """And what is counted."""
    path = tmp_path / "cluster.tar.gz"
    path.write_bytes(pack(collected_of(mixed().facts())))
    drawn = numakube("map", "node-a", "--from", path).out
    counted = numakube("top", "zones", "--from", path).out
    text = f"$ kubectl numa map node-a\n{drawn}$ kubectl numa top zones\n{counted}"
    check_printed("reference/dra.md", "map", text)


def test_those_who_may_not_read_claims_are_told(
    numakube: Callable[..., Ended], tmp_path: Path
) -> None:
    """Devices that look free because claims are unknown would mislead."""
    facts = mixed().facts()
    facts.objects.resource_claims.clear()
    facts = replace(
        facts,
        unreadable=(Unreadable("resourceclaims", refused("list resourceclaims.resource.k8s.io")),),
    )
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(pack(collected_of(facts)))
    ended = numakube("top", "--from", path)
    assert DRIVER not in ended.out
    assert ended.err.startswith(
        "warning: devices of claims are not shown: you may not list resourceclaims"
    )
