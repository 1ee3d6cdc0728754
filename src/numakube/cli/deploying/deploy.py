"""``numakube deploy``: bring components onto a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from numakube.cli.deploying.deploy_options import (
    WaitProgress,
    choices_options,
    components_argument,
    connection_options,
    on_cluster,
    others_options,
    wait_options,
)
from numakube.cli.shared.dry_run_option import DryRunCommand, dry_run_option
from numakube.errors import ConfigError
from numakube.manifests.components import in_order, objects_of

if TYPE_CHECKING:
    from numakube.apps.deployer.apply_and_remove import DeployEngine
    from numakube.apps.deployer.cluster_detection import Takeover
    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document
    from numakube.manifests.components import Choices

NOT_READY = 1


@click.command("deploy", cls=DryRunCommand)
@components_argument
@choices_options
@wait_options
@dry_run_option(
    "client",
    "server",
    text="Change nothing: print the objects (client), or have the server check everything "
    "(server).",
)
@others_options
@connection_options
def command(
    *,
    components: tuple[str, ...],
    choices: Choices,
    wait: bool,
    timeout: float,
    dry_run: str,
    others: str,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Deploy components to a cluster.

    Without a name: api, exporter and scheduler. Components that exist are updated. If exporters or
    schedulers of other projects do the same work, the command stops unless --adopt or --beside is
    given. --adopt stops them once ours are ready (`numakube remove` starts them again), and our
    scheduler serves their profiles, with names, plugins and arguments. If a profile cannot be taken
    over, the command says so and changes nothing.

    The scheduler's configuration is in the ConfigMap numakube-scheduler-config. --scheduler-name,
    repeated for several profiles, and --scheduler-arg write it; --scheduler-config uses your own.
    Pods are replaced when it changes.
    """
    if dry_run == "client" and not others:
        print_all(objects_of(components, choices))
        return 0
    work = DeployRequest(
        components=components,
        choices=choices,
        others=others,
        dry_run=dry_run,
        seconds=timeout,
        wait=wait,
    )
    return on_cluster(kubeconfig, context, work.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployRequest:
    """What to deploy, and how.

    Attributes:
        others: what to do about installations that do the same: ``adopt``, ``beside``, or nothing.
        seconds: how long to wait at most.
    """

    components: tuple[str, ...]
    choices: Choices
    others: str
    dry_run: str
    seconds: float
    wait: bool

    async def run(self, client: Client) -> int:
        """Do it; return the exit code."""
        takeover = await self._decide(client)
        for line in takeover.report:
            click.echo(line, err=self.dry_run == "client")
        documents = self._documents(takeover)
        if self.dry_run == "client":
            print_all(documents)
            return 0
        from numakube.apps.deployer.apply_and_remove import DeployEngine

        engine = DeployEngine(
            client=client,
            tell=lambda step: click.echo(f"{step}{self._suffix}"),
            dry_run=self.dry_run == "server",
            adopt=self.others == "adopt",
        )
        await engine.deploy(documents)
        return await self._finish(engine, documents, takeover)

    @property
    def _suffix(self) -> str:
        return " (server dry run)" if self.dry_run == "server" else ""

    def _documents(self, takeover: Takeover) -> list[Document]:
        choices = replace(self.choices, configuration=takeover.configuration)
        return objects_of(self.components, choices)

    async def _decide(self, client: Client) -> Takeover:
        """Look at what is there, and decide whether and what to take over."""
        from numakube.apps.deployer.cluster_detection import (
            installations,
            plan_takeover,
            rival_text,
            rivals,
        )

        own = {
            (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
            for item in objects_of(self.components, self.choices)
        }
        wanted = set(in_order(self.components))
        there = await installations(client)
        found = [one for one in there if one.role in wanted and one.key not in own]
        adopted = [one for one in found if self.others == "adopt" or one.resting]
        takeover = plan_takeover(adopted, self.choices)
        names = {*self._names(), *(n for one in adopted for n in one.scheduler_names)}
        left = rivals((one for one in found if one not in adopted), names)
        texts = "; ".join(rival_text(one) for one in left)
        if left and self.others != "beside":
            raise ConfigError(f"{texts}. --adopt takes over from it, --beside deploys beside it")
        if left:
            click.echo(f"warning: {texts}", err=True)
        return takeover

    def _names(self) -> set[str]:
        """Return what pods name to be scheduled by ours."""
        told = (self.choices.configuration or {}).get("profiles", ())
        return {self.choices.scheduler_name, *(entry["schedulerName"] for entry in told)}

    async def _finish(
        self, engine: DeployEngine, documents: list[Document], takeover: Takeover
    ) -> int:
        """Wait, and put others to rest once ours is ready to do their work."""
        from numakube.apps.deployer.cluster_detection import put_to_rest

        resting = [one for one in takeover.found if not one.resting]
        if self.dry_run == "none" and (self.wait or resting):
            progress = WaitProgress()
            waiting = await engine.wait_ready(documents, self.seconds, progress)
            progress.end()
            if waiting:
                kept = "; nothing was stopped" if resting else ""
                click.echo(f"error: not ready after {self.seconds:g} s: {waiting}{kept}", err=True)
                return NOT_READY
        for one in resting:
            await put_to_rest(engine.client, one, dry_run=self.dry_run == "server")
            click.echo(f"{one} stopped{self._suffix}")
        if self.wait and self.dry_run == "none":
            click.echo("everything is ready")
        return 0


def print_all(documents: list[Document]) -> None:
    """Print *documents* for ``kubectl apply -f -``."""
    from numakube.api.yaml_text import dump_yaml

    click.echo("---\n".join(dump_yaml(document) for document in documents), nl=False)
