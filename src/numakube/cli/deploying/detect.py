"""``numakube detect``: what kind of cluster this is, and what is on it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from numakube.cli.deploying.options import connection_options, on_cluster
from numakube.cli.output import Output, output_option, print_document
from numakube.cli.printing import say

if TYPE_CHECKING:
    from numakube.kube.client import Client


@click.command("detect")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@connection_options
def command(*, output: Output, kubeconfig: str | None, context: str | None) -> int:
    """What kind of cluster is this, and what is on it?

    Tells the platform, its version, its control plane, and installations by others.
    """

    async def work(client: Client) -> int:
        from numakube.apps.deployer.detection import (
            control_plane_nodes,
            installations,
            platform_of,
        )

        platform = await platform_of(client)
        count = await control_plane_nodes(client)
        found = await installations(client)
        if output is not Output.TABLE:
            document = {
                "platform": platform.kind,
                "version": platform.version,
                "controlPlaneNodes": count,
                "installations": [asdict(one) for one in found],
            }
            print_document(document, output)
            return 0
        click.echo(f"{platform.kind}:{platform.version}, control plane nodes: {count}")
        for one in found:
            names = (
                f", schedulerName {', '.join(one.scheduler_names)}" if one.scheduler_names else ""
            )
            where = f"{one.kind.lower()}/{one.name} in {one.namespace}"
            say(f"{one.role}: {one.project}, {where} ({one.image}){names}")
        if not found:
            click.echo("no exporter, scheduler or operator of others")
        return 0

    return on_cluster(kubeconfig, context, work)
