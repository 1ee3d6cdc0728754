"""``numakube explain pod``: why a pod is where it is, or nowhere, and what would help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from numakube.cli.cluster import (
    ClusterOptions,
    cluster_options,
    facts_for,
    namespace_option,
    pod_place,
)
from numakube.cli.kinds import KindGroup
from numakube.cli.lazy import Lazy
from numakube.cli.naming import ObjectName
from numakube.cli.output import Output, output_option, print_document
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.insight.explain import Explanation, Subject
    from numakube.insight.facts import ClusterFacts

_NEGATIVE = 1


@click.group(
    "explain",
    cls=KindGroup,
    lazy={
        "pod": Lazy("numakube.cli.explain", "Say where a pod fits, and why not elsewhere.", "pod")
    },
)
def command() -> None:
    """Say why a pod is where it is, or nowhere."""


@click.command("pod")
@click.argument("name", required=False, type=ObjectName("pod"))
@namespace_option
@click.option(
    "-f",
    "--filename",
    metavar="FILE",
    help="Explain the pods of this manifest, or of its templates, before they are created.",
)
@click.option(
    "--node",
    default="",
    type=ObjectName("node"),
    metavar="NAME",
    help="Look at this node in detail.",
)
@click.option(
    "--scheduler-config",
    metavar="FILE",
    help="The KubeSchedulerConfiguration to decide by, if not the usual one.",
)
@click.option(
    "--changes/--no-changes", default=True, help="Whether to look for what would make it fit."
)
@cluster_options
@output_option(Output.TABLE, Output.WIDE, Output.JSON, Output.YAML)
def pod(
    name: str | None,
    namespace: str,
    filename: str | None,
    node: str,
    scheduler_config: str | None,
    cluster: ClusterOptions,
    output: Output,
    *,
    changes: bool,
) -> int:
    """Say where a pod fits, and why not elsewhere.

    NAME may have its namespace before it, as in team/web. The verdict is that of the scheduler's
    own plugins on the state of the cluster. Ends with 1 if the pod fits nowhere.
    """
    from numakube.apps.explaining import engine_of
    from numakube.apps.gathering import SCHEDULING
    from numakube.insight.explain import explain
    from numakube.insight.explain.explaining import Options

    if (name is None) == (filename is None):
        raise click.UsageError("Give the NAME of a pod, or a manifest with -f.")
    config = _configuration(scheduler_config)
    facts = facts_for(cluster, what=SCHEDULING)
    if node and node not in facts.nodes:
        raise ConfigError(f"there is no node {node}")
    space, name = pod_place(cluster, namespace, name or "")
    options = Options(node=node, changes=changes)
    found = [
        explain(facts, engine_of(facts, config), subject, options)
        for subject in _subjects(facts, name, filename, space)
    ]
    _print(found, output, several=filename is not None and len(found) > 1)
    return _NEGATIVE if any(one.verdict == "refused" and not one.pod.node for one in found) else 0


def _subjects(
    facts: ClusterFacts, name: str | None, filename: str | None, namespace: str
) -> list[Subject]:
    from numakube.cli.manifests import pods_in
    from numakube.insight.explain import manifest_subject, pod_subject

    if filename is not None:
        classes = facts.priority_classes
        return [
            manifest_subject(one, namespace=namespace, classes=classes) for one in pods_in(filename)
        ]
    found = facts.pod(namespace, name or "")
    if found is None:
        raise ConfigError(_no_such_pod(facts, namespace, name or ""))
    return [pod_subject(found)]


def _no_such_pod(facts: ClusterFacts, namespace: str, name: str) -> str:
    elsewhere = sorted(one.metadata.namespace for one in facts.pods if one.metadata.name == name)
    hint = f"; there is one in {', '.join(elsewhere)} (-n)" if elsewhere else ""
    return f"there is no pod {name} in namespace {namespace}{hint}"


def _configuration(path: str | None) -> KubeSchedulerConfiguration | None:
    if path is None:
        return None
    from numakube.apps.scheduler.settings import configuration_of

    return configuration_of({"config": path}, Path)


def _print(found: list[Explanation], output: Output, *, several: bool) -> None:
    from numakube.api.codec import to_tree
    from numakube.cli.explanation_text import print_explanation
    from numakube.insight.explain import render

    if output in (Output.JSON, Output.YAML):
        trees = [to_tree(one) for one in found]
        print_document(trees if several else trees[0], output)
        return
    texts = [render(one, wide=output is Output.WIDE) for one in found]
    print_explanation("\n".join(texts))
