"""The admission check: what it needs, and what it may do."""

from __future__ import annotations

from typing import Any, Final

from numakube.manifests.controller_deployment import ControllerManifest
from numakube.manifests.rbac_rules import READ, ask_who_calls, rule

_KUEUE: Final = "kueue.x-k8s.io"


class AdmissionCheckManifest(ControllerManifest):
    """What is deployed of the admission check."""

    program = "admission-check"
    cpu = "50m"
    memory = "96Mi"
    memory_limit = "512Mi"

    def cluster_rules(self) -> list[dict[str, Any]]:
        """Return what it may do all over the cluster: answer for workloads, and remove gates."""
        return [
            rule(_KUEUE, ["workloads", "admissionchecks", "resourceflavors"], READ),
            rule(_KUEUE, ["workloads/status", "admissionchecks/status"], ["patch"]),
            rule("", ["pods"], (*READ, "patch")),
            rule("scheduling.k8s.io", ["priorityclasses"], READ),
            rule("", ["events"], ["create", "patch"]),
            *ask_who_calls(),
        ]
