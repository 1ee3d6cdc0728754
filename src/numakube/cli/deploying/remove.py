"""``numakube remove``: take components away again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numakube.cli.deploying.deploy_options import (
    Progress,
    choices_options,
    components_argument,
    connection_options,
    dry_run_option,
    on_cluster,
    wait_options,
)
from numakube.manifests.components import ALL, ON_REQUEST, objects_of

if TYPE_CHECKING:
    from numakube.kube.client import Client
    from numakube.manifests.components import Choices

STILL_THERE = 1


@click.command("remove")
@components_argument
@choices_options
@wait_options
@dry_run_option("server")
@connection_options
def command(
    *,
    components: tuple[str, ...],
    choices: Choices,
    wait: bool,
    timeout: float,
    dry_run: str,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Remove components from a cluster.

    Without a name: api, exporter and scheduler. Deletes only what `numakube deploy` created, and
    starts again what it stopped.
    """
    everything = ON_REQUEST if ALL in components else ()
    documents = objects_of((*components, *everything), choices)

    async def work(client: Client) -> int:
        from numakube.apps.deployer.adoption import wake_all
        from numakube.apps.deployer.apply_and_remove import Engine

        test = dry_run == "server"
        suffix = " (server dry run)" if test else ""
        engine = Engine(
            client=client,
            tell=lambda step: click.echo(f"{step.name} {step.deed}{suffix}"),
            dry_run=test,
        )
        for name in await wake_all(client, dry_run=test):
            click.echo(f"{name} started again{suffix}")
        await engine.remove(documents)
        if not wait or test:
            return 0
        progress = Progress()
        waiting = await engine.wait_gone(documents, timeout, progress)
        progress.end()
        if waiting:
            click.echo(f"error: not gone after {timeout:g} s: {waiting}", err=True)
            return STILL_THERE
        click.echo("everything is gone")
        return 0

    return on_cluster(kubeconfig, context, work)
