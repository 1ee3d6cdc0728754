"""``numakube remove``: take components away again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from numakube.api.nrt import GROUP, PLURAL
from numakube.cli.deploying.deploy_options import (
    WaitProgress,
    choices_options,
    components_argument,
    connection_options,
    on_cluster,
    wait_options,
)
from numakube.cli.shared.dry_run_option import DryRunCommand, dry_run_option
from numakube.errors import ApiError, ClusterUnreachable
from numakube.manifests import exporter
from numakube.manifests.components import ALL, ON_REQUEST, in_order, objects_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document
    from numakube.manifests.components import Choices

STILL_THERE = 1
_EXPORTER: Final = "exporter"
_EXPORTERS: Final = f"daemonset/{exporter.NAME} "
_MOMENT_SECONDS: Final = 10.0
"""How long to wait for exporters to end if nobody wants to wait: they take a second."""


@click.command("remove", cls=DryRunCommand)
@components_argument
@choices_options
@wait_options
@dry_run_option("server", text="Change nothing: have the server check everything (server).")
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
    starts again what it stopped. A kind or an object that something else still uses stays. So does
    the namespace while there is anything in it, and whenever single components are named.
    """
    names = in_order((*components, *(ON_REQUEST if ALL in components else ())))
    documents = objects_of(names, choices)

    async def work(client: Client) -> int:
        from numakube.apps.deployer.apply_and_remove import Deed, DeployEngine, DeployStep
        from numakube.apps.deployer.cluster_detection import wake_all
        from numakube.apps.deployer.still_used import StillUsed

        test = dry_run == "server"
        suffix = " (server dry run)" if test else ""
        steps: list[DeployStep] = []

        def tell(step: DeployStep) -> None:
            click.echo(f"{step}{suffix}")
            steps.append(step)

        engine = DeployEngine(
            client=client,
            tell=tell,
            dry_run=test,
        )
        used = StillUsed.besides(names, choices, client)
        for name in await wake_all(client, dry_run=test):
            click.echo(f"{name} started again{suffix}")
        going = await engine.remove(documents, used)
        stay = any(step.deed is Deed.FOREIGN and _EXPORTERS in step.name for step in steps)
        if _EXPORTER in names and not (test or stay or any(map(_defines_reports, going))):
            await _clear_reports(client, choices.namespace, timeout if wait else _MOMENT_SECONDS)
        if not wait or test:
            return 0
        progress = WaitProgress()
        waiting = await engine.wait_gone(going, timeout, progress)
        progress.end()
        if waiting:
            click.echo(f"error: not gone after {timeout:g} s: {waiting}", err=True)
            return STILL_THERE
        kept = any(step.deed is Deed.USED for step in steps)
        click.echo("everything else is gone" if kept else "everything is gone")
        return 0

    return on_cluster(kubeconfig, context, work)


def _defines_reports(document: Document) -> bool:
    """Tell whether *document* is the definition of reports, with which they go."""
    return str(document["metadata"]["name"]) == f"{PLURAL}.{GROUP}"


async def _clear_reports(client: Client, namespace: str, seconds: float) -> None:
    """Take off the reports what nobody will keep up to date any more."""
    from numakube.apps.left_reports import clear_all_reports

    try:
        done = await clear_all_reports(client, namespace, seconds=seconds)
    except (ApiError, ClusterUnreachable) as error:
        click.echo(f"warning: exact data stays on the reports: {error}", err=True)
        return
    if done.kept:
        click.echo(f"warning: the exporters of {_nodes(done.kept)} are there still", err=True)
    if done.cleared:
        nodes = _nodes(done.cleared)
        click.echo(f"exact data taken off the reports of {nodes}; their amounts are the last ones")


def _nodes(names: Sequence[str]) -> str:
    return "1 node" if len(names) == 1 else f"{len(names)} nodes"
