"""``kubectl numa fits``: how many more pods of a kind fit, and what limits the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numakube.cli.shared.cluster_options import (
    cluster_options,
    facts_for,
    namespace_for,
    namespace_option,
    warn_of_orphans,
    warn_of_refusal,
)
from numakube.cli.shared.output_option import Output, output_option, print_document

if TYPE_CHECKING:
    from numakube.cli.shared.connection_options import ClusterOptions


@click.command("fits")
@click.argument("words", nargs=-1, metavar="[KIND/NAME]")
@click.option(
    "-f",
    "--filename",
    metavar="FILE",
    help="The manifest of one kind of pod: a Pod, Deployment, Job, ...; - is standard input.",
)
@click.option(
    "--shape",
    metavar="RESOURCES",
    help="Or what a pod asks for: cpu=8,memory=32Gi,nvidia.com/gpu=1.",
)
@click.option(
    "--nodes",
    metavar="KIND",
    multiple=True,
    help="Also count on nodes that do not exist: '2x dgx-h100; policy=restricted', or '2x like"
    " NODE'.",
)
@click.option(
    "--scheduler-config",
    metavar="FILE",
    help="The KubeSchedulerConfiguration to use instead of the default.",
)
@namespace_option
@cluster_options
@output_option(Output.TABLE, Output.WIDE, Output.JSON, Output.YAML)
def command(
    *,
    words: tuple[str, ...],
    filename: str | None,
    shape: str | None,
    nodes: tuple[str, ...],
    scheduler_config: str | None,
    namespace: str,
    cluster: ClusterOptions,
    output: Output,
) -> int:
    """How many more of these pods fit, where, and what limits the next one?

    Such as a pod that is there, or those of a deployment, statefulset, replicaset or job; or those
    of a manifest (-f), or that ask for so much (--shape).

    The scheduler's own plugins and the kubelet model place pods beside all that run. Then they say
    what refuses the next pod on the full cluster. Last, every kind of node is tried: how many such
    pods would fit on another one? Nothing is changed. Exits with 1 if not even one pod fits.
    """
    from numakube.api.codec import to_tree
    from numakube.apps.gathering import SCHEDULING
    from numakube.cli.explain import print_lines
    from numakube.cli.shared.scheduler_options import configuration_in_file
    from numakube.cli.shared.wanted_pod import known_in, pod_named, wanted_pod
    from numakube.insight import engine_of
    from numakube.insight.collected import SCHEDULER_CONFIG
    from numakube.insight.explain import manifest_subject
    from numakube_planning.fits_answer import how_many_more, room_lines
    from numakube_planning.simulation.virtual_node import with_new_nodes

    space = namespace_for(cluster, namespace)
    wanted = wanted_pod(shape, filename, space)
    if (wanted is None) == (not words):
        raise click.UsageError("Say which pods: KIND/NAME, -f FILE or --shape RESOURCES.")
    config = configuration_in_file(scheduler_config)
    facts = facts_for(cluster, what=SCHEDULING | {SCHEDULER_CONFIG})
    facts = with_new_nodes(facts, nodes) if nodes else facts
    pod = known_in(facts, wanted).pod if wanted else pod_named(facts, words, space)[1]
    subject = manifest_subject(pod, namespace=space, classes=facts.priority_classes)
    scheduler = pod.spec.scheduler_name
    answer = how_many_more(facts, lambda known: engine_of(known, config, scheduler), subject)
    if output in (Output.JSON, Output.YAML):
        print_document(to_tree(answer), output)
    else:
        print_lines(room_lines(answer, wide=output is Output.WIDE))
    warn_of_refusal(facts)
    warn_of_orphans(facts)
    return int(not answer.fits)
