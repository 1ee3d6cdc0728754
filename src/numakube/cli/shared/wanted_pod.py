"""The kind of pod that a question is about: from a manifest, or from amounts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click
import msgspec

from numakube.cli.shared.pods_in_manifests import Batch, batches_in
from numakube.errors import InvalidValue
from numakube.insight.usage.largest_pod import parse_shape, pod_of
from numakube.insight.usage.named_resources import in_full

if TYPE_CHECKING:
    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts
    from numakube.values.resources import Amounts


def wanted_pod(
    shape: str | None, filename: str | None, namespace: str, *, flag: str = "--shape"
) -> Batch | None:
    """Return the pods that ``--shape`` or ``-f`` are about, if either is given.

    Which resources of a shape there are is known only when the cluster is: see `known_in`.
    """
    if shape is not None and filename is not None:
        raise click.UsageError(f"Give {flag} or -f, not both.")
    if filename is not None:
        return _in_manifest(filename, namespace)
    if shape is None:
        return None
    return Batch("", shape, pod_of(_parsed(shape, flag)), None)


def known_in(facts: ClusterFacts, wanted: Batch, *, flag: str = "--shape") -> Batch:
    """Return *wanted* with the full names of resources, if it is a shape."""
    if wanted.kind:
        return wanted
    try:
        return replace(wanted, pod=pod_of(in_full(_parsed(wanted.name, flag), facts)))
    except InvalidValue as error:
        raise click.UsageError(f"{flag}: {error}") from None


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


def _parsed(shape: str, flag: str) -> Amounts:
    """Return the amounts of ``cpu=8,memory=32Gi``."""
    try:
        return parse_shape(shape)
    except InvalidValue as error:
        raise click.UsageError(f"{flag}: {error}.") from None
