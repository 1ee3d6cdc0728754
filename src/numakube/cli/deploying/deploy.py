"""``numakube deploy``: bring components onto a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from numakube.cli.deploying.options import (
    Progress,
    choices_options,
    components_argument,
    connection_options,
    dry_run_option,
    on_cluster,
    wait_options,
)
from numakube.manifests.components import objects_of

if TYPE_CHECKING:
    from numakube.apps.deployer.detection import Found
    from numakube.kube.client import Client
    from numakube.kube.resources import Document
    from numakube.manifests.components import Choices

NOT_READY = 1


@click.command("deploy")
@components_argument
@choices_options
@wait_options
@dry_run_option("client", "server")
@click.option("--adopt", is_flag=True, help="Take over from installations by others.")
@connection_options
def command(
    *,
    components: tuple[str, ...],
    choices: Choices,
    wait: bool,
    timeout: float,
    dry_run: str,
    adopt: bool,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Bring components onto a cluster.

    Without a name: api, exporter and scheduler.
    What is there already is brought up to date. With --adopt, exporters, schedulers and operators
    of others are put to rest (`numakube remove` wakes them again), and pods that name their
    scheduler are scheduled by ours.
    """
    documents = objects_of(components, choices)
    if dry_run == "client" and not adopt:
        print_all(documents)
        return 0

    async def work(client: Client) -> int:
        chosen = choices
        found: list[Found] = []
        if adopt:
            found, chosen = await _takeover(client, components, choices)
        return await apply_all(
            client,
            objects_of(components, chosen),
            found=found,
            dry_run=dry_run,
            adopt=adopt,
            seconds=timeout if wait else None,
        )

    return on_cluster(kubeconfig, context, work)


async def _takeover(
    client: Client, components: tuple[str, ...], choices: Choices
) -> tuple[list[Found], Choices]:
    """Find what others installed of *components*, and keep the name of their scheduler."""
    from numakube.apps.deployer.detection import installations
    from numakube.manifests.components import in_order

    wanted = set(in_order(components))
    found = [one for one in await installations(client) if one.role in wanted]
    for one in found:
        click.echo(f"found {one.project}: {one.kind.lower()}/{one.name} in {one.namespace}")
    names = [name for one in found for name in one.scheduler_names]
    if not names:
        return found, choices
    click.echo(f"pods with schedulerName {names[0]} will be scheduled by numakube")
    if len(names) > 1:
        click.echo(f"not taken over: {', '.join(names[1:])}", err=True)
    return found, replace(choices, scheduler_name=names[0])


async def apply_all(
    client: Client,
    documents: list[Document],
    *,
    found: list[Found],
    dry_run: str,
    adopt: bool,
    seconds: float | None,
) -> int:
    """Apply *documents* and wait, if *seconds* says how long; return the exit code."""
    from numakube.apps.deployer.adoption import put_to_rest
    from numakube.apps.deployer.engine import Engine

    if dry_run == "client":
        for one in found:
            click.echo(f"{one.kind.lower()}/{one.name} in {one.namespace} would be put to rest")
        print_all(documents)
        return 0
    suffix = " (server dry run)" if dry_run == "server" else ""
    engine = Engine(
        client=client,
        tell=lambda step: click.echo(f"{step.name} {step.deed}{suffix}"),
        dry_run=dry_run == "server",
        adopt=adopt,
    )
    await engine.deploy(documents)
    for one in found:
        await put_to_rest(client, one, dry_run=dry_run == "server")
        click.echo(f"{one.kind.lower()}/{one.name} in {one.namespace} put to rest{suffix}")
    if seconds is None or dry_run != "none":
        return 0
    progress = Progress()
    waiting = await engine.wait_ready(documents, seconds, progress)
    progress.end()
    if waiting:
        click.echo(f"error: not ready after {seconds:g} s: {waiting}", err=True)
        return NOT_READY
    click.echo("everything is ready")
    return 0


def print_all(documents: list[Document]) -> None:
    """Print *documents* for ``kubectl apply -f -``."""
    from numakube.api.yamls import dump_yaml

    click.echo("---\n".join(dump_yaml(one) for one in documents), nl=False)
