"""``kubectl numa debug podresources NODE``: what a kubelet says that its pods hold."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click
import msgspec

from numakube.cli.shared.cluster_options import cluster_options
from numakube.cli.shared.kubectl_names import ObjectName
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.cli.shared.terminal import print_rows
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.cli.shared.connection_options import ClusterOptions

Document = dict[str, Any]


@click.command("podresources")
@click.argument("node", type=ObjectName("node"))
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@cluster_options
def command(node: str, output: Output, cluster: ClusterOptions) -> None:
    """Show what a kubelet says that its pods hold.

    These are the answers of the kubelet's PodResources API, which exporters and schedulers depend
    on: CPUs, memory and devices of each container, claims of dynamic resource allocation, and what
    the node could give out if it were empty. The exporter on the node asks for them.
    """
    if not cluster.live:
        raise ConfigError("a bundle does not have them; ask a live cluster")
    document = asyncio.run(_asked(cluster, node))
    if output is Output.TABLE:
        titles = ("POD", "CONTAINER", "CPUS", "MEMORY", "DEVICES", "CLAIMS")
        print_rows(titles, _rows(document), empty="no pods")
    else:
        print_document(document, output)


async def _asked(cluster: ClusterOptions, node: str) -> Document:
    from numakube.apps.debug_client import ask_exporter
    from numakube.cli.shared.connection_options import connected

    async with connected(cluster) as client:
        found: Document = msgspec.json.decode(
            await ask_exporter(client, node, "/debug/podresources")
        )
        return found


def _rows(document: Document) -> Iterator[tuple[str, ...]]:
    for pod in document["pods"]:
        name = f"{pod['namespace']}/{pod['name']}"
        if pod["cpus"] or pod["memory"]:
            yield name, "(pod)", pod["cpus"], _memory(pod["memory"]), "", ""
        for container in pod["containers"]:
            yield (
                name,
                container["name"],
                *_holds(container),
                _claims(container["dynamicResources"]),
            )
    yield "(allocatable)", "", *_holds(document["allocatable"]), ""


def _holds(one: Document) -> tuple[str, str, str]:
    return one["cpus"], _memory(one["memory"]), _devices(one["devices"])


def _memory(blocks: Iterable[Document]) -> str:
    from numakube.values.quantity import Quantity

    return ", ".join(
        f"{Quantity.of_bytes(block['bytes'])} {block['type']}{_place(block)}" for block in blocks
    )


def _devices(devices: Iterable[Document]) -> str:
    return ", ".join(
        f"{device['resource']} {' '.join(device['ids'])}{_place(device)}" for device in devices
    )


def _claims(claims: Iterable[Document]) -> str:
    return ", ".join(
        f"{claim['claim']}: {one_device['driver']} {one_device['pool']}/{one_device['device']}"
        for claim in claims
        for one_device in claim["devices"] or ({"driver": "", "pool": "", "device": ""},)
    )


def _place(one: Document) -> str:
    """Return where something is: ``@0`` or ``@0+1``."""
    return "@" + "+".join(map(str, one["numaNodes"])) if one["numaNodes"] else ""
