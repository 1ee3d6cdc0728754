"""The kind of pod that a question is about: one that is there, from a manifest, or from amounts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click
import msgspec

from numakube.cli.shared.kubectl_names import kind_of
from numakube.cli.shared.pods_in_manifests import Batch, batches_in
from numakube.errors import ConfigError, InvalidValue
from numakube.insight.explain import pod_subject
from numakube.insight.explain.workload_explanation import workload_in
from numakube.insight.usage.largest_pod import parse_shape, pod_of
from numakube.insight.usage.named_resources import in_full

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts
    from numakube.values.resources import Amounts

_WORKLOADS: Final = {one.lower(): one for one in ("Deployment", "StatefulSet", "ReplicaSet", "Job")}


def wanted_pod(shape: str | None, filename: str | None, namespace: str) -> Batch | None:
    """Return the pods that ``--shape`` or ``-f`` are about, if either is given.

    Which resources of a shape there are is known only when the cluster is: see `known_in`.
    """
    if shape is not None and filename is not None:
        raise click.UsageError("Give --shape or -f, not both.")
    if filename is not None:
        return _in_manifest(filename, namespace)
    if shape is None:
        return None
    return Batch("", shape, pod_of(_parsed(shape)), None)


def known_in(facts: ClusterFacts, wanted: Batch) -> Batch:
    """Return *wanted* with the full names of resources, if it is a shape."""
    if wanted.kind:
        return wanted
    try:
        return replace(wanted, pod=pod_of(in_full(_parsed(wanted.name), facts)))
    except InvalidValue as error:
        raise click.UsageError(f"--shape: {error}") from None


def _in_manifest(filename: str, namespace: str) -> Batch:
    found = batches_in(filename)
    if len(found) > 1:
        names = ", ".join(batch.title for batch in found)
        raise click.UsageError(f"-f {filename}: {names}: one kind of pod at a time is counted.")
    return replace(found[0], pod=_in_namespace(found[0].pod, namespace))


def _in_namespace(pod: Pod, namespace: str) -> Pod:
    space = pod.metadata.namespace or namespace
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, namespace=space)
    )


def _parsed(shape: str) -> Amounts:
    """Return the amounts of ``cpu=8,memory=32Gi``."""
    try:
        return parse_shape(shape)
    except InvalidValue as error:
        raise click.UsageError(f"--shape: {error}.") from None


def pod_named(facts: ClusterFacts, words: Sequence[str], namespace: str) -> tuple[str, Pod]:
    """Return ``pod web``, ``pod/web`` or ``web``, or a pod of a workload: its name, and it unbound.

    Raises:
        ConfigError: there is no such thing, or no pod of it.
    """
    kind, name = _split(words)
    if kind == "pod":
        found = facts.pod(namespace, name)
        if found is None:
            raise ConfigError(f"there is no pod {name} in namespace {namespace}")
        return f"pod/{name}", pod_subject(found).unbound()
    workload = workload_in(facts, _WORKLOADS[kind], namespace, name)
    if workload is None:
        raise ConfigError(
            f"no pod of {kind} {name} is in namespace {namespace}; a manifest can be given with -f"
        )
    return f"{kind}/{name}", workload.sample


def _split(words: Sequence[str]) -> tuple[str, str]:
    """Return kind and name; without a kind it is a pod."""
    first, slash, name = words[0].partition("/")
    rest = [name, *words[1:]] if slash else list(words[1:] or words[:1])
    kind = kind_of(first) if slash or len(words) > 1 else "pod"
    if kind not in (*_WORKLOADS, "pod") or len(rest) != 1:
        raise click.UsageError(f"{' '.join(words)!r} is not like pod/NAME or deployment/NAME.")
    return str(kind), rest[0]
