"""The metrics that every process has, in a registry of its own.

The lab runs many processes in one, so none may use prometheus_client's global registry.
"""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

import numakube


def new_registry(component: str) -> CollectorRegistry:
    """Return a registry with the figures of the process and the version of *component*."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    info = Gauge(
        "numakube_build_info",
        "Always 1; the labels say what runs.",
        ("component", "version"),
        registry=registry,
    )
    info.labels(component, numakube.__version__).set(1)
    tasks = Gauge("numakube_tasks", "Tasks of asyncio that have not ended.", registry=registry)
    tasks.set_function(_tasks)
    return registry


def _tasks() -> float:
    try:
        return float(len(asyncio.all_tasks()))
    except RuntimeError:  # no event loop runs
        return 0.0
