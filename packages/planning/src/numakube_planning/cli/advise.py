"""``kubectl numa plan advise``: which small change of a request gives a pod more places."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from numakube.cli.shared.cluster_options import (
    cluster_options,
    facts_for,
    namespace_for,
    namespace_option,
    warn_of_refusal,
)
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.cli.shared.terminal import say
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.insight import ClusterFacts


@click.command("advise")
@click.argument("words", nargs=-1, metavar="[KIND/NAME]")
@namespace_option
@click.option(
    "-f", "--filename", metavar="FILE", help="Advise on the pods of this manifest or its templates."
)
@click.option(
    "--shape", metavar="RESOURCES", help="Or on a pod that asks for this: cpu=8,memory=32Gi."
)
@click.option(
    "--scheduler-config",
    metavar="FILE",
    help="The KubeSchedulerConfiguration to use instead of the default.",
)
@cluster_options
@output_option(Output.TABLE, Output.JSON, Output.YAML)
def command(
    *,
    words: tuple[str, ...],
    namespace: str,
    filename: str | None,
    shape: str | None,
    scheduler_config: str | None,
    cluster: ClusterOptions,
    output: Output,
) -> None:
    """Which smaller request gives a pod more places?

    And which other reservation of kubelets? KIND is pod, deployment, statefulset, replicaset or
    job. Every line is tried: on the scheduler's plugins for the cluster as it is, and on the
    kubelet model for idle nodes.
    """
    from numakube.api.codec import to_tree
    from numakube.apps.gathering import SCHEDULING
    from numakube.cli.shared.scheduler_options import configuration_in_file
    from numakube.insight import engine_of
    from numakube.insight.collected import SCHEDULER_CONFIG
    from numakube.insight.unknown_zones import why_unknown
    from numakube_planning.advice import advice_lines, advice_on

    if sum((bool(words), filename is not None, shape is not None)) != 1:
        raise click.UsageError("Say which pod: KIND/NAME, -f FILE or --shape RESOURCES.")
    config = configuration_in_file(scheduler_config)
    facts = facts_for(cluster, what=SCHEDULING | {SCHEDULER_CONFIG})
    space = namespace_for(cluster, namespace)
    found = _asked(facts, words, filename, shape, space)
    trees = []
    for number, (name, pod) in enumerate(found):
        unknown = why_unknown(facts, pod, facts.nodes)
        if unknown:
            raise ConfigError(f"{name}: {unknown}, so there is no advice to give")
        make = partial(engine_of, config=config, scheduler=pod.spec.scheduler_name)
        advice = advice_on(facts, make, pod, name=name)
        if output is not Output.TABLE:
            trees.append(to_tree(advice))
            continue
        for line in ("", *advice_lines(advice)) if number else advice_lines(advice):
            say(line)
    if trees:
        print_document(trees if len(trees) > 1 else trees[0], output)
    warn_of_refusal(facts)


def _asked(
    facts: ClusterFacts, words: tuple[str, ...], filename: str | None, shape: str | None, space: str
) -> Iterator[tuple[str, Pod]]:
    """Yield the pods in question with what they are called."""
    from numakube.cli.shared.pods_in_manifests import batches_in
    from numakube.cli.shared.wanted_pod import known_in, pod_named, wanted_pod
    from numakube.insight.explain import manifest_subject

    if words:
        yield pod_named(facts, words, space)
        return
    asked = wanted_pod(shape, None, space)
    for batch in (known_in(facts, asked),) if asked else batches_in(filename or ""):
        subject = manifest_subject(batch.pod, namespace=space, classes=facts.priority_classes)
        yield batch.title if batch.kind else batch.name, subject.unbound()
