"""``kubectl numa defrag``: which pods to move so that more pods of a kind fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from numakube.cli.shared.cluster_options import (
    cluster_options,
    facts_for,
    namespace_for,
    namespace_option,
    warn_of_refusal,
)
from numakube.cli.shared.output_option import Output, output_option, print_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.cli.shared.cluster_options import ClusterOptions
    from numakube.insight.defrag import Plan


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
@namespace_option
@cluster_options
@output_option(Output.TABLE, Output.JSON, Output.YAML)
def command(
    *,
    filename: str | None,
    shape: str | None,
    count: int,
    scheduler_config: str | None,
    namespace: str,
    cluster: ClusterOptions,
    output: Output,
) -> int:
    """Which pods would have to move so that these fit?

    The plan has the fewest moves per pod, each confirmed by the scheduler's own plugins and the
    kubelet model: who leaves which node, and where its controller's next pod will go while that
    node is cordoned. Daemons, pods without a controller, with local data, of higher priority, or
    protected by a disruption budget stay where they are. Nothing is changed. Ends with 1 if not
    all fit even so.
    """
    from numakube.apps.gathering import SCHEDULING
    from numakube.cli.explain import configuration_in_file
    from numakube.cli.shared.wanted_pod import wanted_pod
    from numakube.insight.collected import SCHEDULER_CONFIG
    from numakube.insight.defrag import plan_moves
    from numakube.insight.explain.explained_pod import manifest_subject
    from numakube.insight.scheduler_engine import engine_of

    wanted = wanted_pod(shape, filename, namespace_for(cluster, namespace))
    if wanted is None:
        raise click.UsageError("Say which pods: -f FILE, or --open RESOURCES.")
    config = configuration_in_file(scheduler_config)
    facts = facts_for(cluster, what=SCHEDULING | {SCHEDULER_CONFIG})
    subject = manifest_subject(wanted.pod, classes=facts.priority_classes)
    engine = engine_of(facts, config, wanted.pod.spec.scheduler_name)
    plan = plan_moves(engine, subject.pod, count)
    if output in (Output.JSON, Output.YAML):
        print_document(_document(plan), output)
    else:
        click.echo("\n".join(_lines(plan)))
    warn_of_refusal(facts)
    return int(len(plan.nodes) < count)


def _document(plan: Plan) -> dict[str, Any]:
    """Return the plan for programs."""
    return {
        "wanted": plan.wanted,
        "nodes": plan.nodes,
        "steps": [
            {
                "node": step.node,
                "moves": [
                    {"pod": one.pod, "from": one.from_node, "to": one.to_node} for one in step.moves
                ],
            }
            for step in plan.steps
        ],
        "whyNot": plan.why_not,
    }


def _lines(plan: Plan) -> Iterator[str]:
    """Yield the plan as text."""
    for number, step in enumerate(plan.steps, 1):
        yield f"{number}. Cordon {step.node}, and evict:"
        for move in step.moves:
            yield f"     {move.pod}, which goes to {move.to_node}"
        yield f"   Uncordon {step.node}: one more pod fits there."
    fit = f"{len(plan.nodes)} of {plan.wanted} pods fit"
    if not plan.steps:
        yield f"{fit} as it is." if not plan.why_not else f"{fit}, and no moves help."
    else:
        moved = "1 pod is moved" if plan.moves == 1 else f"{plan.moves} pods are moved"
        yield f"{fit} then; {moved}."
    if plan.why_not:
        yield f"The next one does not: {plan.why_not}"
