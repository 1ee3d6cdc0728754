"""The files under deploy/ are what the builders build."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from numakube.api.crds import UPDATE_CRD, crd
from numakube.api.yaml_text import dump_yaml
from numakube.manifests.cluster_policies import flow_control
from numakube.manifests.exporter import ExporterManifest
from numakube.manifests.extender import ExtenderManifest, as_comment
from numakube.manifests.operator import OperatorManifest
from numakube.manifests.rbac_rules import view_role
from numakube.manifests.scheduler import SchedulerManifest
from numakube_placement.manifests.enforcer import EnforcerManifest
from numakube_placement.manifests.webhook import WebhookManifest
from numakube_planning.manifests import AdmissionCheckManifest, RebalancerManifest

FOLDER = Path(__file__).parents[2] / "deploy"
HEAD = (
    "# Made by numakube.manifests; change it there and run UPDATE_MANIFESTS=1 pytest "
    "tests/manifests.\n"
)


def namespace(name: str) -> dict[str, Any]:
    """Return the namespace that everything goes to, agents that see their hosts included."""
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def is_up_to_date(name: str, documents: list[dict[str, Any]], remark: str = "") -> bool:
    """Tell whether a file has just these objects, ready for ``kubectl apply -f``."""
    built = HEAD + remark + "---\n".join(dump_yaml(document) for document in documents)
    path = FOLDER / name
    if os.environ.get("UPDATE_MANIFESTS"):
        path.write_text(built, encoding="utf-8")
    return path.read_text(encoding="utf-8") == built


def test_the_scheduler_file_is_up_to_date() -> None:
    """With the namespace that it goes to."""
    manifest = SchedulerManifest()
    home = namespace(manifest.namespace)
    documents = [home, *flow_control(manifest.namespace), *manifest.objects()]
    assert is_up_to_date("scheduler.yaml", documents)


def test_the_exporter_file_is_up_to_date() -> None:
    """With the kind of topologies, which it fills."""
    manifest = ExporterManifest()
    home = namespace(manifest.namespace)
    shared = [crd(), crd(UPDATE_CRD), view_role(), *flow_control(manifest.namespace)]
    assert is_up_to_date("exporter.yaml", [*shared, home, *manifest.objects()])


def test_the_enforcer_file_is_up_to_date() -> None:
    """With a namespace that lets it write the host's control groups."""
    manifest = EnforcerManifest()
    home = namespace(manifest.namespace)
    assert is_up_to_date("enforcer.yaml", [home, *manifest.objects()])


def test_the_extender_file_is_up_to_date() -> None:
    """With a second kube-scheduler that calls it, and how their Secrets are made."""
    manifest = ExtenderManifest()
    documents = [namespace(manifest.namespace), *manifest.objects()]
    assert is_up_to_date("extender.yaml", documents, as_comment(manifest.certificates()))


def test_the_operator_file_is_up_to_date() -> None:
    """With the kinds of its objects, and its namespace."""
    assert is_up_to_date("operator.yaml", OperatorManifest().objects())


def test_the_webhook_file_is_up_to_date() -> None:
    """With what API servers ask it about."""
    manifest = WebhookManifest()
    documents = [namespace(manifest.namespace), *manifest.objects()]
    assert is_up_to_date("webhook.yaml", documents)


def test_the_admission_file_is_up_to_date() -> None:
    """With the namespace that it shares with the scheduler."""
    manifest = AdmissionCheckManifest()
    documents = [namespace(manifest.namespace), *manifest.objects()]
    assert is_up_to_date("admission.yaml", documents)


def test_the_rebalancer_file_is_up_to_date() -> None:
    """With the namespace that it shares with the scheduler."""
    manifest = RebalancerManifest()
    documents = [namespace(manifest.namespace), *manifest.objects()]
    assert is_up_to_date("rebalancer.yaml", documents)
