"""What the Prometheus operator is told to scrape."""

from __future__ import annotations

from typing import Any, Final

_PORTS: Final = {"exporter": "metrics-port", "scheduler": "metrics", "extender": "health"}


def service_monitors(namespace: str) -> list[dict[str, Any]]:
    """Return one monitor of pods for each component."""
    return [_monitor(component, port, namespace) for component, port in _PORTS.items()]


def _monitor(component: str, port: str, namespace: str) -> dict[str, Any]:
    name = f"numakube-{component}"
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "podMetricsEndpoints": [{"port": port}],
        },
    }
