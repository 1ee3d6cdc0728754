"""``kubectl numa plan advise``: which small change of a request gives a pod more places."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import click

from numakube.cli.shared.cluster_options import (
    cluster_options,
    facts_for,
    namespace_for,
    namespace_option,
    warn_of_refusal,
)
from numakube.cli.shared.kubectl_names import kind_of
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.cli.shared.terminal import say
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.cli.shared.cluster_options import ClusterOptions
    from numakube.insight.facts import ClusterFacts

_WORKLOADS: Final = {one.lower(): one for one in ("Deployment", "StatefulSet", "ReplicaSet", "Job")}


@click.command("advise")
@click.argument("words", nargs=-1, metavar="[KIND/NAME]")
@namespace_option
@click.option(
    "-f", "--filename", metavar="FILE", help="Advise on the pods of this manifest or its templates."
)
@click.option(
    "--scheduler-config",
    metavar="FILE",
    help="The KubeSchedulerConfiguration to use instead of the default.",
)
@cluster_options
@output_option(Output.TABLE, Output.JSON, Output.YAML)
def command(
    words: tuple[str, ...],
    namespace: str,
    filename: str | None,
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
    from numakube.cli.explain import configuration_in_file
    from numakube.insight.collected import SCHEDULER_CONFIG
    from numakube.insight.scheduler_engine import engine_of
    from numakube.insight.unknown_zones import why_unknown
    from numakube_planning.advice import advice_lines, advice_on

    if bool(words) == bool(filename):
        raise click.UsageError("Give KIND/NAME, or a manifest with -f.")
    config = configuration_in_file(scheduler_config)
    facts = facts_for(cluster, what=SCHEDULING | {SCHEDULER_CONFIG})
    space = namespace_for(cluster, namespace)
    found = _in_file(facts, filename, space) if filename else _named(facts, words, space)
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


def _in_file(facts: ClusterFacts, filename: str, space: str) -> Iterator[tuple[str, Pod]]:
    from numakube.cli.shared.pods_in_manifests import batches_in
    from numakube.insight.explain import manifest_subject

    for batch in batches_in(filename):
        subject = manifest_subject(batch.pod, namespace=space, classes=facts.priority_classes)
        yield batch.title, subject.unbound()


def _named(facts: ClusterFacts, words: tuple[str, ...], space: str) -> Iterator[tuple[str, Pod]]:
    kind, name = _split(words)
    if kind == "pod":
        from numakube.insight.explain import pod_subject

        found = facts.pod(space, name)
        if found is None:
            raise ConfigError(f"there is no pod {name} in namespace {space}")
        yield f"pod/{name}", pod_subject(found).unbound()
        return
    from numakube.insight.explain.workload_explanation import workload_in

    workload = workload_in(facts, _WORKLOADS[kind], space, name)
    if workload is None:
        raise ConfigError(
            f"no pod of {kind} {name} is in namespace {space}; a manifest can be given with -f"
        )
    yield f"{kind}/{name}", workload.sample


def _split(words: tuple[str, ...]) -> tuple[str, str]:
    """Return kind and name of ``pod web``, ``pod/web`` or ``web``, which is a pod."""
    first, slash, name = words[0].partition("/")
    rest = [name, *words[1:]] if slash else list(words[1:] or words[:1])
    kind = kind_of(first) if slash or len(words) > 1 else "pod"
    if kind not in (*_WORKLOADS, "pod") or len(rest) != 1:
        raise click.UsageError(f"{' '.join(words)!r} is not like pod/NAME or deployment/NAME.")
    return str(kind), rest[0]
