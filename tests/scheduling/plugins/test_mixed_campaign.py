"""Random pods with claims and CPUs: what the scheduler promises, kubelets of every kind keep."""

from __future__ import annotations

import pytest
from benchmarks.mixed_pods import Campaign


@pytest.mark.parametrize("seed", [7, 8])
def test_every_promise_of_alignment_is_kept(seed: int) -> None:
    """None is rejected or misaligned, and pods that run far from their devices are told."""
    campaign = Campaign(seed)
    campaign.play(50)
    assert campaign.wrong == []
    assert campaign.tally["placed"] == 50
    assert campaign.tally["aligned"] > 10


def test_the_campaign_notices_devices_that_are_far_away() -> None:
    """As kube-scheduler's choice is, which knows nothing of the kubelet's."""
    campaign = Campaign(7, deviceChoice="FirstFit")
    campaign.play(30)
    assert campaign.tally["misaligned"] > 3
