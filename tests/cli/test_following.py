"""``-w``: what is shown follows the cluster."""

from __future__ import annotations

import contextlib

import pytest

from numakube.cli.shared.watch_option import states
from numakube.errors import ClusterUnreachable
from numakube.kube.catalog import PODS
from numakube.kube.clock import RetryPolicy
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import ClusterConfig
from numakube.testing import bound, pod
from numakube_lab.testing import lab_cluster


@pytest.mark.timeout(300)
async def test_every_change_is_shown() -> None:
    """Now, and when a pod has come."""
    async with (
        lab_cluster(1) as cluster,
        contextlib.aclosing(states(cluster.client, pause=0)) as shown,
    ):
        first = await anext(shown)
        assert set(first.nodes) == {"node-0"}
        assert first.pods == ()
        await cluster.client.create(PODS, bound(pod("new"), "node-0"))
        async for facts in shown:
            view = facts.view("node-0")
            report = getattr(view, "report", None)
            if facts.pods and report and report.accounts_for(facts.pods[0].metadata.uid):
                break


async def test_a_cluster_that_is_not_there_is_told_at_once() -> None:
    """Rather than waited for in silence."""
    dead = ClusterConfig(server="http://127.0.0.1:9")
    async with connect(dead, retry=RetryPolicy(attempts=1)) as client:
        with pytest.raises(ClusterUnreachable):
            await anext(states(client))
