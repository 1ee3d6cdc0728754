"""``numakube setup``: validate, then deploy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numakube.cli.deploying.deploy import DeployRequest
from numakube.cli.deploying.deploy_options import (
    choices_options,
    components_argument,
    connection_options,
    on_cluster,
    others_options,
    wait_options,
)
from numakube.cli.deploying.validate import report
from numakube.cli.shared.cluster_options import facts_for
from numakube.cli.shared.connection_options import current_cluster
from numakube.cli.shared.output_option import Output

if TYPE_CHECKING:
    from numakube.manifests.components import Choices


@click.command("setup")
@components_argument
@choices_options
@wait_options
@others_options
@connection_options
def command(
    *,
    components: tuple[str, ...],
    choices: Choices,
    wait: bool,
    timeout: float,
    others: str,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Check the kubelets, then deploy.

    Problems of kubelets are printed, but do not stop the deployment.
    """
    report(facts_for(current_cluster()), Output.TABLE)
    work = DeployRequest(
        components=components,
        choices=choices,
        others=others,
        dry_run="none",
        seconds=timeout,
        wait=wait,
    )
    return on_cluster(kubeconfig, context, work.run)
