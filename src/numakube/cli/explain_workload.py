"""``numakube explain deployment`` and the like: how many pods of a workload fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numakube.cli.shared.cluster_options import (
    cluster_options,
    facts_for,
    namespace_for,
    namespace_option,
)
from numakube.cli.shared.kubectl_names import ObjectName
from numakube.cli.shared.output_option import Output, output_option
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.cli.shared.pods_in_manifests import Batch
    from numakube.insight.explain.explanation_document import WorkloadExplanation
    from numakube.insight.explain.pod_explanation import ExplainOptions
    from numakube.insight.explain.workload_explanation import ExplainedWorkload
    from numakube.insight.facts import ClusterFacts


def _command_of(kind: str) -> click.Command:
    @click.command(kind.lower())
    @click.argument("name", type=ObjectName(kind.lower()))
    @namespace_option
    @click.option(
        "--scheduler-config",
        metavar="FILE",
        help="The KubeSchedulerConfiguration to use instead of the default.",
    )
    @click.option(
        "--changes/--no-changes", default=True, help="Whether to look for what would make it fit."
    )
    @cluster_options
    @output_option(Output.TABLE, Output.WIDE, Output.JSON, Output.YAML)
    def command(
        name: str,
        namespace: str,
        scheduler_config: str | None,
        cluster: ClusterOptions,
        output: Output,
        *,
        changes: bool,
    ) -> int:
        from numakube.apps.gathering import SCHEDULING
        from numakube.cli.explain import print_found
        from numakube.cli.shared.scheduler_options import configuration_in_file
        from numakube.insight.collected import SCHEDULER_CONFIG
        from numakube.insight.explain.pod_explanation import ExplainOptions

        config = configuration_in_file(scheduler_config)
        facts = facts_for(cluster, what=SCHEDULING | {SCHEDULER_CONFIG})
        workload = _found(facts, kind, namespace_for(cluster, namespace), name)
        explained = explained_workload(facts, workload, config, ExplainOptions(changes=changes))
        print_found([explained], output)
        return int(explained.verdict == "refused")

    command.help = f"""Say how many pods of a {kind} fit together, and why others do not.

    Pods that have no node are placed one after the other by the scheduler's own plugins. The first
    that fits nowhere is explained. Ends with 1 if there is one.
    """
    return command


deployment = _command_of("Deployment")
statefulset = _command_of("StatefulSet")
replicaset = _command_of("ReplicaSet")
job = _command_of("Job")
podgroup = _command_of("PodGroup")


def _found(facts: ClusterFacts, kind: str, namespace: str, name: str) -> ExplainedWorkload:
    from numakube.insight.explain.workload_explanation import gang_in, workload_in

    is_gang = kind == "PodGroup"
    found = (
        gang_in(facts, namespace, name) if is_gang else workload_in(facts, kind, namespace, name)
    )
    if found is None:
        raise ConfigError(
            f"no pod of {kind.lower()} {name} is in namespace {namespace};"
            " a manifest can be given with -f"
        )
    return found


def explained_workload(
    facts: ClusterFacts,
    workload: ExplainedWorkload,
    config: KubeSchedulerConfiguration | None,
    options: ExplainOptions,
) -> WorkloadExplanation:
    """Return what there is to say of *workload*."""
    from numakube.insight.explain import explain_workload
    from numakube.insight.scheduler_engine import engine_of

    scheduler = workload.sample.spec.scheduler_name

    return explain_workload(
        facts, lambda known: engine_of(known, config, scheduler), workload, options
    )


def planned(facts: ClusterFacts, batch: Batch, namespace: str) -> ExplainedWorkload:
    """Return what a manifest asks for as a workload."""
    from numakube.insight.explain.workload_explanation import planned_workload

    return planned_workload(
        facts, batch.pod, batch.replicas or 1, kind=batch.kind, name=batch.name, namespace=namespace
    )
