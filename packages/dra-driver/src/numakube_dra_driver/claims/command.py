"""``kubectl numa claim``: manifests of pods, with claims for what they ask for."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

import click

from numakube.cli.shared.cluster_options import namespace_option
from numakube.cli.shared.connection_options import connected, live_options
from numakube.cli.shared.machine_argument import read_text
from numakube.cli.shared.output_option import Output, output_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube_dra_driver.claims.served_resources import Serving

NOTHING: Final = 1
_POLICIES: Final = ("single-numa-node", "socket", "none")
_SCOPES: Final = ("pod", "container")


@click.command("claim")
@live_options
@namespace_option
@click.option(
    "-f",
    "--filename",
    "file",
    required=True,
    metavar="FILE",
    help="Pods, and what makes pods; - is standard input.",
)
@click.option(
    "--policy",
    type=click.Choice(_POLICIES),
    default=_POLICIES[0],
    show_default=True,
    help="What everything in a claim has in common: the NUMA node, the socket, or nothing.",
)
@click.option(
    "--scope",
    type=click.Choice(_SCOPES),
    default=_SCOPES[0],
    show_default=True,
    help="Whether that holds for a pod as a whole, or for each of its containers.",
)
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="CLASS[=RESOURCE]",
    help="Ask for this class, without a look at the cluster; with the extended resource that it"
    " serves, if it is none of the driver's own. May be repeated.",
)
@output_option(Output.YAML, Output.JSON)
def command(
    *,
    cluster: ClusterOptions,
    namespace: str,
    file: str,
    policy: str,
    scope: str,
    classes: tuple[str, ...],
    output: Output,
) -> int:
    """Write claims into pods, so that a DRA driver aligns them.

    Prints the manifests, ready for `kubectl apply -f -`: Guaranteed pods with whole CPUs get a
    claim for their CPUs, memory, hugepages and devices, as far as classes of the cluster serve
    them, and its template stands before them. Everything else is printed as it is. Looks at Pods,
    and at the templates of Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs and CronJobs.
    What is left as it is, and why, is said apart from the output. Exits with 1 if no object got a
    claim.
    """
    from numakube.api.yaml_text import load_manifests
    from numakube_dra_driver.claims.claim_manifests import write_manifests
    from numakube_dra_driver.claims.claim_writing import Policy, Scope, Wish

    trees = load_manifests(read_text(file), "standard input" if file == "-" else file)
    serving = _told(classes) if classes else asyncio.run(_of_cluster(cluster))
    wish = Wish(policy=Policy(policy), scope=Scope(scope))
    written = write_manifests(trees, wish, serving, namespace=namespace)
    for note in written.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(_text(written.documents, output), nl=False)
    return 0 if written.count else NOTHING


async def _of_cluster(cluster: ClusterOptions) -> Serving:
    """Return what the classes of the cluster serve."""
    from numakube.api.resource_slices import DeviceClass
    from numakube.kube.catalog import DEVICE_CLASSES
    from numakube_dra_driver.claims.served_resources import serving_of

    async with connected(cluster) as client:
        return serving_of((await client.list(DEVICE_CLASSES.decoded_as(DeviceClass))).items)


def _told(classes: Iterable[str]) -> Serving:
    """Return what classes serve that are said to exist."""
    from numakube.api.meta import ObjectMeta
    from numakube.api.resource_slices import DeviceClass, DeviceClassSpec
    from numakube_dra_driver.claims.served_resources import serving_of

    named = (text.partition("=") for text in classes)
    return serving_of(
        DeviceClass(
            metadata=ObjectMeta(name=name),
            spec=DeviceClassSpec(extended_resource_name=resource or None),
        )
        for name, _, resource in named
    )


def _text(documents: Iterable[dict[str, Any]], output: Output) -> str:
    from numakube.api.yaml_text import dump_yaml

    if output is Output.YAML:
        return "---\n".join(dump_yaml(document) for document in documents)
    whole = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    return json.dumps(whole, indent=2) + "\n"
