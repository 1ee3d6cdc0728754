"""Every container that we deploy, by any way and of any flavour, is confined as the pages say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.annexes.contributions import rows

from numakube.api.numaresources import (
    AdmissionCheckFields,
    ExtenderSpec,
    RebalancerSpec,
    SchedulerSpec,
)
from numakube.apps.operator.scheduler_plan import companion_objects
from numakube.manifests.components import COMPONENTS, UPDATERS, Choices, component_objects
from numakube.manifests.exporter import PoolExporter, PoolExporters
from numakube.manifests.secondary_scheduler import SecondaryScheduler

Documents = list[dict[str, Any]]
AS_ROOT = (
    *("exporter", "rte", "nfd", "operator exporter", "operator exporter openshift"),
    "enforcer",
    *rows("AS_ROOT"),
)
"""The kubelet's sockets, and control groups, are root's."""


def _flavours() -> Iterator[tuple[str, Documents]]:
    for name in COMPONENTS:
        yield name, component_objects(name, Choices())
    for updater in UPDATERS[1:]:
        yield updater, component_objects("exporter", Choices(updater=updater))
    yield "scheduler shards", component_objects("scheduler", Choices(shards=3))
    yield "extender plain", component_objects("extender", Choices(tls=False, replicas=1))
    for name, objects in rows("FLAVOURS").items():
        yield name, objects()
    for openshift in (False, True):
        pools = (
            PoolExporter(name="p", notified=True, koordinator=True, measure=True, paused=True),
        )
        exporters = PoolExporters(namespace="n", image="i", openshift=openshift, pools=pools)
        yield f"operator exporter{' openshift' if openshift else ''}", exporters.objects()
    for guaranteed in (False, True):
        scheduler = SecondaryScheduler(namespace="n", image="i", profiles={}, guaranteed=guaranteed)
        yield f"operator scheduler {guaranteed}", scheduler.objects()
    everything = SchedulerSpec(
        image_spec="i",
        extender=ExtenderSpec(),
        rebalancer=RebalancerSpec(),
        admission_check=AdmissionCheckFields(),
    )
    yield "operator companions", companion_objects(everything, "n", "Always")


FLAVOURS = dict(_flavours())


def pods(documents: Documents) -> list[dict[str, Any]]:
    """Return the specification of the pods of every workload."""
    return [
        document["spec"]["template"]["spec"]
        for document in documents
        if "template" in document.get("spec", {})
    ]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_container_is_confined(flavour: str) -> None:
    """No capability, no way to more, a read-only file system, a seccomp profile, and bounds."""
    found = pods(FLAVOURS[flavour])
    assert found or flavour == "api"
    for pod in found:
        shared = pod["securityContext"]
        assert shared["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        if flavour in AS_ROOT:
            assert shared["runAsUser"] == 0
        else:
            assert shared["runAsNonRoot"] is True
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_of_the_kubelets_folder_only_state_files_are_seen(flavour: str) -> None:
    """Where the whole folder is mounted, what belongs to pods and the kubelet itself is hidden."""
    for pod in pods(FLAVOURS[flavour]):
        whole = {
            volume["name"]
            for volume in pod.get("volumes", ())
            if volume.get("hostPath", {}).get("path", "").rstrip("/") == "/var/lib/kubelet"
        }
        above = [
            volume["name"]
            for volume in pod.get("volumes", ())
            if volume.get("hostPath", {}).get("path") in ("/", "/var", "/var/lib")
        ]
        assert not above
        for container in pod["containers"]:
            mounts = {mount["mountPath"]: mount for mount in container.get("volumeMounts", ())}
            for mount in [entry for entry in mounts.values() if entry["name"] in whole]:
                assert mount["readOnly"] is True
                for hidden in ("pods", "plugins", "plugins_registry", "pki"):
                    cover = mounts[f"{mount['mountPath']}/{hidden}"]["name"]
                    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == cover]
                    assert "emptyDir" in volume


@pytest.mark.parametrize("flavour", [other for other in FLAVOURS if other not in ("api", "nfd")])
def test_everything_that_serves_has_a_network_policy_and_a_budget(flavour: str) -> None:
    """DaemonSets need no budget: a drain passes them over. NFD's agent serves nothing here."""
    documents = FLAVOURS[flavour]
    selected = {
        kind: [document["spec"] for document in documents if document["kind"] == kind]
        for kind in ("NetworkPolicy", "PodDisruptionBudget")
    }
    for workload in documents:
        if workload["kind"] not in ("Deployment", "DaemonSet"):
            continue
        labels = workload["spec"]["template"]["metadata"]["labels"]
        policies = [
            entry
            for entry in selected["NetworkPolicy"]
            if entry["podSelector"]["matchLabels"].items() <= labels.items()
        ]
        assert {kind for policy in policies for kind in policy["policyTypes"]} == {
            "Ingress",
            "Egress",
        }
        served = {
            port["containerPort"]
            for container in workload["spec"]["template"]["spec"]["containers"]
            for port in container.get("ports", ())
        }
        opened = {
            port["port"]
            for policy in policies
            for rule in policy.get("ingress", ())
            for port in rule["ports"]
        }
        assert served <= opened
        if workload["kind"] == "Deployment":
            budgets = [
                entry
                for entry in selected["PodDisruptionBudget"]
                if entry["selector"]["matchLabels"].items() <= labels.items()
            ]
            assert [budget["maxUnavailable"] for budget in budgets] == [1]
