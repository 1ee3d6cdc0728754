"""``kubectl numa defrag``: which pods to move so that more pods of a kind fit; moves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numakube.cli.defrag.plan_output import plan_document, plan_lines
from numakube.cli.shared.cluster_options import (
    cluster_options,
    facts_for,
    namespace_for,
    namespace_option,
    warn_of_refusal,
)
from numakube.cli.shared.connection_options import Timeout
from numakube.cli.shared.output_option import Output, output_option, print_document

if TYPE_CHECKING:
    from numakube.cli.shared.cluster_options import ClusterOptions
    from numakube.insight.defrag import Plan
    from numakube.insight.facts import ClusterFacts


@click.command("defrag")
@click.option(
    "-f",
    "--filename",
    metavar="FILE",
    help="The manifest of the pods that are to fit: a Pod, Deployment, Job, ...; - is standard "
    "input.",
)
@click.option(
    "--open",
    "shape",
    metavar="RESOURCES",
    help="Or what such a pod asks for: cpu=16,memory=64Gi,nvidia.com/gpu=2.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="How many of them are to fit.",
)
@click.option(
    "--scheduler-config",
    metavar="FILE",
    help="The KubeSchedulerConfiguration to decide by, if not the usual one.",
)
@click.option("--apply", is_flag=True, help="Move the pods, one after the other.")
@click.option(
    "--dry-run",
    type=click.Choice(("none", "client", "server")),
    default="none",
    show_default=True,
    help="With --apply, change nothing: print the plan (client), or have the server check every "
    "step of it (server).",
)
@click.option(
    "--timeout",
    "patience",
    type=Timeout(),
    default="5m",
    show_default=True,
    help="With --apply: give up if one pod takes longer to move.",
)
@namespace_option
@cluster_options
@output_option(Output.TABLE, Output.JSON, Output.YAML)
def command(
    *,
    filename: str | None,
    shape: str | None,
    count: int,
    scheduler_config: str | None,
    apply: bool,
    dry_run: str,
    patience: float,
    namespace: str,
    cluster: ClusterOptions,
    output: Output,
) -> int:
    """Which pods would have to move so that these fit?

    The plan has the fewest moves per pod, each confirmed by the scheduler's own plugins and the
    kubelet model: who leaves which node, and where its controller's next pod will go while that
    node is cordoned. Daemons, pods without a controller, with local data, of higher priority, or
    protected by a disruption budget stay where they are. Ends with 1 if not all fit even so.

    Nothing is changed, unless --apply is given: then each pod is evicted, its replacement is waited
    for, and the rest is planned again before the next step. It stops, with 1, where a replacement
    finds no place or the rest would take more moves than planned. It may be interrupted at any
    time, and run again.
    """
    from numakube.apps.gathering import SCHEDULING
    from numakube.cli.explain import configuration_in_file
    from numakube.cli.shared.wanted_pod import wanted_pod
    from numakube.insight.collected import SCHEDULER_CONFIG
    from numakube.insight.defrag import plan_moves
    from numakube.insight.explain.explained_pod import manifest_subject
    from numakube.insight.scheduler_engine import engine_of

    if dry_run != "none" and not apply:
        raise click.UsageError("--dry-run goes with --apply; without it nothing is changed anyway.")
    if apply and not cluster.live:
        raise click.UsageError("--apply needs a live cluster; a bundle cannot be changed.")
    wanted = wanted_pod(shape, filename, namespace_for(cluster, namespace))
    if wanted is None:
        raise click.UsageError("Say which pods: -f FILE, or --open RESOURCES.")
    config = configuration_in_file(scheduler_config)

    def plan_for(facts: ClusterFacts) -> Plan:
        subject = manifest_subject(wanted.pod, classes=facts.priority_classes)
        engine = engine_of(facts, config, wanted.pod.spec.scheduler_name)
        return plan_moves(engine, subject.pod, count)

    def show(plan: Plan) -> None:
        if output in (Output.JSON, Output.YAML):
            print_document(plan_document(plan), output)
        else:
            click.echo("\n".join(plan_lines(plan)))

    if apply and dry_run != "client":
        from numakube.cli.defrag.plan_application import Application

        dry = dry_run == "server"
        application = Application(plan=plan_for, show=show, patience=patience, dry_run=dry)
        return application.run(cluster)
    facts = facts_for(cluster, what=SCHEDULING | {SCHEDULER_CONFIG})
    plan = plan_for(facts)
    show(plan)
    warn_of_refusal(facts)
    return int(len(plan.nodes) < count)
