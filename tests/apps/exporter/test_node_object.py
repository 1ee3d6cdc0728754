"""What the Node object tells of the kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.apps.exporter.node_object import NodeObject
from numakube.kube.catalog import NODES
from numakube.kube.client import Client

IP = {"type": "InternalIP", "address": "10.0.0.1"}
PORTS = {"kubeletEndpoint": {"Port": 10250}}


@pytest.mark.parametrize(
    ("status", "url"),
    [
        ({"addresses": [IP], "daemonEndpoints": PORTS}, "https://10.0.0.1:10250"),
        (
            {"addresses": [{**IP, "address": "fd00::1"}], "daemonEndpoints": PORTS},
            "https://[fd00::1]:10250",
        ),
        (
            {"addresses": [{**IP, "type": "ExternalIP"}], "daemonEndpoints": PORTS},
            "https://10.0.0.1:10250",
        ),
        ({"addresses": [{**IP, "type": "Hostname"}], "daemonEndpoints": PORTS}, None),
        ({"addresses": [IP]}, None),
        ({"addresses": [IP], "daemonEndpoints": {}}, None),
        ({"daemonEndpoints": PORTS}, None),
    ],
)
async def test_the_kubelet_is_where_address_and_port_say(
    bare: Client, status: dict[str, Any], url: str | None
) -> None:
    """Both are needed."""
    node = NodeObject(bare, "n1")
    assert (node.kubelet_url, node.is_known, node.owner) == (None, False, None)
    await bare.create(NODES.raw, {"metadata": {"name": "n1"}, "status": status})
    await node.refresh()
    assert (node.kubelet_url, node.is_known) == (url, True)


async def test_a_node_that_is_gone_is_not_known_any_more(bare: Client) -> None:
    """Its uid would be that of nothing."""
    info = {"kubeletVersion": "v1.35.7"}
    made = await bare.create(
        NODES.raw,
        {"metadata": {"name": "n1", "annotations": {"a": "b"}}, "status": {"nodeInfo": info}},
    )
    node = NodeObject(bare, "n1")
    await node.refresh()
    assert node.owner is not None
    assert node.owner.uid == made["metadata"]["uid"]
    assert (node.kubelet_version, node.annotations) == ("v1.35.7", {"a": "b"})
    await bare.delete(NODES, "n1")
    await node.refresh()
    assert not node.is_known
    assert (node.kubelet_version, node.annotations) == (None, {})
