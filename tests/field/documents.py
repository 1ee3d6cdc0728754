"""Pods and workloads of the field's scenarios, written as short as the scenarios' tables are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.values.quantity import value

SHORT = {
    "mem": "memory",
    "hp2": "hugepages-2Mi",
    "hp1": "hugepages-1Gi",
    "eph": "ephemeral-storage",
    **{f"cell{zone}": f"kni.node/numacell0{zone}" for zone in (0, 1)},
    **{name: f"vendor.example/{name}" for name in ("dev1", "dev2", "dev3")},
}

Amounts = Mapping[str, str]
Zones = tuple[Amounts, Amounts]


def amounts(text: str) -> dict[str, str]:
    """Return the resources in *text*, such as ``cpu=4 mem=4Gi dev1=2``."""
    pairs = (word.split("=") for word in text.split())
    return {SHORT.get(name, name): amount for name, amount in pairs}


def zones(first: str, second: str) -> Zones:
    """Return what is to be left in both zones."""
    return amounts(first), amounts(second)


def in_units(asked: Amounts) -> dict[str, int]:
    """Return amounts as numbers, as zones are told in: CPUs in thousandths."""
    return {
        resource: value(amount) * 1000 if resource == "cpu" else value(amount)
        for resource, amount in asked.items()
    }


def pod(
    name: str,
    containers: Sequence[Amounts],
    *,
    init: Sequence[Amounts] = (),
    node: str = "",
    requests_only: bool = False,
    scheduler: str = SCHEDULER_NAME,
    script: Amounts | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod whose containers ask for these amounts.

    Args:
        name: its name.
        containers: what each asks for; they are called ``c0``, ``c1`` and so on.
        init: the same of init containers, ``init0`` and so on.
        node: where it is, if it need not be scheduled.
        requests_only: without limits, and so not guaranteed.
        scheduler: who shall place it.
        script: what becomes of it in the lab, without the annotations' prefix.
        spec: more of its spec.
    """
    place = {"nodeName": node} if node else {"schedulerName": scheduler}
    annotations = {f"lab.numakube.dev/{key}": text for key, text in (script or {}).items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {
            **place,
            **spec,
            **({"initContainers": _containers("init", init, requests_only=False)} if init else {}),
            "containers": _containers("c", containers, requests_only=requests_only),
        },
    }


def workload(kind: str, template: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a Deployment, ReplicaSet, DaemonSet or Job of pods like *template*, by its name."""
    name = template["metadata"]["name"]
    labels = {"app": name}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": labels}}
    annotations = template["metadata"]["annotations"]
    metadata = {"labels": labels, "annotations": annotations}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            **selector,
            **spec,
            "template": {"metadata": metadata, "spec": template["spec"]},
        },
    }


def _containers(
    prefix: str, several: Sequence[Amounts], *, requests_only: bool
) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{prefix}{number}",
            "image": "registry.example/pause:1",
            "resources": {"requests": dict(one)} if requests_only else {"limits": dict(one)},
        }
        for number, one in enumerate(several)
    ]
