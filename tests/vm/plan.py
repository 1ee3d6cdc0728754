"""The order in which a campaign does things: pods, bursts and disturbances under each choice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tests.vm.campaign import Campaign
from tests.vm.kubelets import Choice


async def run_plan(
    campaign: Campaign, choices: Sequence[Choice], *, pods: int, restarts: int = 0
) -> None:
    """Spread *pods* and *restarts* over *choices*: half of the pods alone, half in bursts."""
    for number, choice in enumerate(choices):
        mine = _share(pods, number, len(choices))
        await campaign.use(choice)
        await campaign.one_by_one(mine // 2)
        await _bursts(campaign, mine - mine // 2)
        await _disturbances(campaign, _share(restarts, number, len(choices)))


def _share(total: int, number: int, parts: int) -> int:
    """Return what the part with that number gets, so that all together get *total*."""
    return total * (number + 1) // parts - total * number // parts


async def _bursts(campaign: Campaign, pods: int) -> None:
    while pods > 0:
        size = min(pods, campaign.rng.randint(10, 40))
        await campaign.burst(size)
        pods -= size


async def _disturbances(campaign: Campaign, restarts: int) -> None:
    """Restart one thing after the other, now and then in the middle of a burst."""
    actions = list(disturbances(campaign).items())
    for number in range(restarts):
        name, action = actions[number % len(actions)]
        if number % 3 == 2:
            campaign.counts[name] += 1
            await campaign.burst(10, meanwhile=action)
        else:
            await campaign.disturb(name, action)


def disturbances(campaign: Campaign) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Return what can happen to a node, by name; kubelets restart more often than the rest."""
    cluster, node = campaign.cluster, campaign.cluster.node

    async def kill_exporter() -> None:
        await node.kill("exporter")
        await node.start("exporter")

    async def kill_both() -> None:
        await asyncio.gather(node.restart_kubelet(), kill_exporter())

    return {
        "kubelet restarts": node.restart_kubelet,
        "exporter kills": kill_exporter,
        "API server restarts": cluster.plane.restart,
        "kubelet and exporter restarts": kill_both,
        "device plugin restarts": node.restart_plugins,
    }
