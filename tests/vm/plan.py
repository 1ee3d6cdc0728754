"""The order in which a campaign does things: pods, bursts and disturbances under each choice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Final

from tests.vm.campaign import Action, Campaign
from tests.vm.kubelets import Choice
from tests.vm.node import WouldNotStart


async def run_plan(
    campaign: Campaign, choices: Sequence[Choice], *, pods: int, restarts: int = 0
) -> None:
    """Spread *pods* and *restarts* over *choices*: half of the pods alone, half in bursts."""
    happenings = cycle(disturbances(campaign).items())
    for number, choice in enumerate(choices):
        mine = _share(pods, number, len(choices))
        await campaign.use(choice)
        await campaign.one_by_one(mine // 2)
        await _bursts(campaign, mine - mine // 2)
        for _ in range(_share(restarts, number, len(choices))):
            await _happen(campaign, *next(happenings))


async def check_plan(
    campaign: Campaign, choices: Sequence[Choice], *, pods: int, restarts: int = 0
) -> None:
    """Run the plan, print what was counted, and fail if there were mistakes."""
    try:
        await run_plan(campaign, choices, pods=pods, restarts=restarts)
    finally:
        campaign.say(f"\n{campaign.table()}\n{campaign.line()}")
    assert not campaign.mistakes, "\n".join(campaign.details)


def _share(total: int, number: int, parts: int) -> int:
    """Return what the part with that number gets, so that all together get *total*."""
    return total * (number + 1) // parts - total * number // parts


async def _bursts(campaign: Campaign, pods: int) -> None:
    while pods > 0:
        size = min(pods, campaign.rng.randint(10, 40))
        await campaign.burst(size)
        pods -= size


_TAKES_AWAY: Final = (
    "API server restarts",
    "kubelet restarts",
    "kubelet and exporter restarts",
    "device plugin restarts",
)
"""What makes a kubelet take pods in another order than that of their bindings, or without devices.

One that lists its pods again takes those of one second of creation in any order.
"""


async def _happen(campaign: Campaign, name: str, action: Action) -> None:
    """Let something happen while pods run or, every third time, while they come."""
    if campaign.rng.random() < 1 / 3:
        campaign.counts[name] += 1
        await campaign.burst(10, meanwhile=action, restarting=name in _TAKES_AWAY)
    else:
        await campaign.disturb(name, action)


def disturbances(campaign: Campaign) -> Mapping[str, Action]:
    """Return what can happen to a node, by name, in the order of trial."""
    cluster, node = campaign.cluster, campaign.cluster.node

    async def kill_exporter() -> None:
        await node.kill("exporter")
        await node.start("exporter")

    async def restart_kubelet() -> None:
        try:
            await node.restart_kubelet()
        except WouldNotStart:
            campaign.counts["kubelets left alone, which would not start from their own files"] += 1

    async def kill_both() -> None:
        await asyncio.gather(restart_kubelet(), kill_exporter())

    return {
        "kubelet restarts": restart_kubelet,
        "exporter kills": kill_exporter,
        "API server restarts": cluster.plane.restart,
        "kubelet and exporter restarts": kill_both,
        "device plugin restarts": node.restart_plugins,
    }
