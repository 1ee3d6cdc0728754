"""Become alignable: whole CPUs, and requests equal to limits.

Such a pod is not refused for it, but nothing of it is aligned either, whatever the node can do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from numakube.api.pod_resources import GUARANTEED, compute_qos_class, has_pod_level_resources
from numakube.insight.explain.explanation_document import Change
from numakube.insight.planned_pods import all_containers, as_guaranteed, asked_by, with_amounts
from numakube.values.display import amount_text
from numakube.values.resources import CPU, MILLI_PER_CPU

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.insight.explain.what_if import Bench


def unaligned(pod: Pod) -> tuple[str, ...]:
    """Say what of *pod* no kubelet aligns, whatever its policy, and why."""
    if has_pod_level_resources(pod):
        return ("Pod-level resources are not aligned unless PodLevelResourceManagers is on.",)
    quality = compute_qos_class(pod)
    if quality != GUARANTEED:
        return (
            f"No CPU or memory of it is aligned anywhere: its QoS class is {quality}, and only"
            " Guaranteed pods (requests equal to limits) get exclusive CPUs and memory.",
        )
    return tuple(
        f"Container {name} asks for {amount_text(CPU, cpu)} CPU: with a fraction it runs on shared"
        " CPUs, which are not aligned."
        for name, cpu in _fractions(pod)
    )


def alignable(bench: Bench) -> Iterator[Change]:
    """Yield what would have to be asked for so that the pod is aligned, and fits."""
    pod = bench.pod
    if has_pod_level_resources(pod):
        return
    if compute_qos_class(pod) != GUARANTEED:
        node = bench.taker(_anew(as_guaranteed(pod)))
        if node is not None:
            text = f"Set limits equal to requests, CPUs whole: then it is aligned; fits on {node}."
            yield Change(kind="guaranteed", text=text, node=node)
        return
    for container, cpu in _fractions(pod):
        whole = -(-cpu // MILLI_PER_CPU) * MILLI_PER_CPU
        node = bench.taker(with_amounts(pod, container, {CPU: whole}))
        if node is not None:
            was, to = amount_text(CPU, cpu), amount_text(CPU, whole)
            text = f"Ask for {to} CPUs instead of {was} in container {container}:"
            yield Change(
                kind="whole-cpus",
                text=f"{text} whole ones are exclusive and aligned; fits on {node}.",
                node=node,
                container=container,
                resource=CPU,
                was=was,
                to=to,
            )


def _fractions(pod: Pod) -> list[tuple[str, int]]:
    found = ((one.name, asked_by(one).get(CPU, 0)) for one, _ in all_containers(pod))
    return [(name, cpu) for name, cpu in found if cpu % MILLI_PER_CPU]


def _anew(pod: Pod) -> Pod:
    """Return *pod* without what the server recorded of it, its QoS class above all."""
    return msgspec.structs.replace(pod, status=None)
