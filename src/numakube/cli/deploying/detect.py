"""``numakube check cluster``: what kind of cluster this is, and what is on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numakube.cli.deploying.deploy_options import connection_options, on_cluster
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.cli.shared.terminal import say

if TYPE_CHECKING:
    from numakube.apps.deployer.cluster_detection import Found
    from numakube.kube.client import Client


@click.command("detect")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@connection_options
def command(*, output: Output, kubeconfig: str | None, context: str | None) -> int:
    """What kind of cluster is this, and what is on it?

    Prints the platform, its version, its control plane, and the exporters, schedulers and operators
    that it finds: ours, those of other projects, and those that were stopped when ours took over.
    """

    async def work(client: Client) -> int:
        from numakube.apps.deployer.cluster_detection import (
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
                "installations": [_document(one) for one in found],
            }
            print_document(document, output)
            return 0
        click.echo(f"{platform.kind}:{platform.version}, control plane nodes: {count}")
        for one in found:
            say(_line(one))
        if not found:
            click.echo("no exporter, scheduler or operator")
        return 0

    return on_cluster(kubeconfig, context, work)


def _line(one: Found) -> str:
    names = f", schedulerName {', '.join(one.scheduler_names)}" if one.scheduler_names else ""
    where = f"{one.kind.lower()}/{one.name} in {one.namespace}"
    rests = ", rests since numakube took over" if one.resting else ""
    return f"{one.role}: {one.project}, {where} ({one.image}){names}{rests}"


def _document(one: Found) -> dict[str, object]:
    return {
        "role": one.role,
        "project": one.project,
        "kind": one.kind,
        "namespace": one.namespace,
        "name": one.name,
        "image": one.image,
        "schedulerNames": list(one.scheduler_names),
        "resting": one.resting,
    }
