"""``numakube run extender``: answer a stock kube-scheduler, and print its configuration."""

from __future__ import annotations

from typing import Any

import click

from numakube.api.yaml_text import dump_yaml
from numakube.apps.extender.process import PROGRAM
from numakube.cli.lazy_commands import LazyGroup
from numakube.cli.program_commands import run_program
from numakube.manifests.extender import SCHEDULER_NAME, ExtenderManifest, as_comment


@click.pass_context
def _unless_subcommand(ctx: click.Context, /, **_: object) -> Any:  # noqa: ANN401 - exit code
    if ctx.invoked_subcommand is not None:
        return None
    return run_program(PROGRAM, PROGRAM.settings.given(ctx))


command = LazyGroup(
    name=PROGRAM.name,
    params=PROGRAM.settings.parameters(),
    callback=_unless_subcommand,
    help=PROGRAM.help,
    invoke_without_command=True,
    subcommand_metavar="[config [OPTIONS]]",
)


@command.command("config")
@click.option(
    "--deployment",
    type=click.Choice(["main", "second"]),
    default="second",
    show_default=True,
    help="Extend the cluster's own kube-scheduler, or run a second one.",
)
@click.option(
    "--scheduler-name",
    default=SCHEDULER_NAME,
    show_default=True,
    help="schedulerName of pods for the second one.",
)
@click.option("--namespace", default="numakube", show_default=True, help="Where everything runs.")
@click.option("--url-prefix", default="", help="Where the extender is; its Service by default.")
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="How kube-scheduler reaches the API server; default: its pod's account, or as in kubeadm.",
)
@click.option("--image", default=ExtenderManifest().image, help="Image of the extender.")
@click.option(
    "--kube-scheduler-image",
    default=ExtenderManifest().kube_scheduler_image,
    help="Image of the second kube-scheduler.",
)
@click.option(
    "--replicas", type=click.IntRange(min=1), default=2, show_default=True, help="Of the extender."
)
@click.option(
    "--tls/--no-tls", default=True, show_default=True, help="Whether calls are encrypted."
)
@click.option(
    "--mutual-tls/--no-mutual-tls",
    default=None,
    help="Whether kube-scheduler needs a client certificate; yes with TLS.",
)
@click.option("--manifests", is_flag=True, help="Print everything that is deployed.")
@click.option("--certificates", is_flag=True, help="Print the commands that create its Secrets.")
def config(
    *,
    deployment: str,
    manifests: bool,
    certificates: bool,
    mutual_tls: bool | None,
    **values: Any,  # noqa: ANN401
) -> None:
    """Print a KubeSchedulerConfiguration with the extender, or all manifests.

    The configuration of a second kube-scheduler is among its manifests. For the main one, put the
    configuration where kube-scheduler reads its own, on every machine of the control plane,
    together with ca.crt, tls.crt and tls.key of the Secret for clients.
    """
    if mutual_tls and not values["tls"]:
        raise click.UsageError("--mutual-tls: there is no TLS with --no-tls")
    second, mutual = deployment == "second", mutual_tls is not False
    manifest = ExtenderManifest(second=second, mutual_tls=mutual, **values)
    if certificates:
        click.echo(manifest.certificates(), nl=False)
        return
    documents = manifest.objects() if manifests else [manifest.configuration()]
    if manifests:
        click.echo(as_comment(manifest.certificates()), nl=False)
    click.echo("---\n".join(dump_yaml(document) for document in documents), nl=False)
