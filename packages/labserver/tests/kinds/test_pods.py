"""Pods as the API server completes, refuses and changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from packages.labserver.tests.kinds.kind_rules import rules

from kube_lab_server import GVK
from kube_lab_server.kinds.kind_rules import AdmissionRefused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kube_lab_server import Json

POD = GVK("", "v1", "Pod")


class FakeCluster:
    """A cluster of given objects."""

    def __init__(self, *objs: Json) -> None:
        self.objs = objs

    def get(self, group: str, kind: str, name: str, namespace: str = "") -> Json | None:
        """Find one object."""
        found = (o for o in self.list(group, kind, namespace) if o["metadata"]["name"] == name)
        return next(iter(found), None)

    def list(self, group: str, kind: str, namespace: str = "") -> Iterable[Json]:
        """Find all objects of a kind."""
        return [
            obj
            for obj in self.objs
            if (GVK.of(obj).group, GVK.of(obj).kind) == (group, kind)
            and namespace in {"", obj["metadata"].get("namespace")}
        ]


def _pod(*containers: Json, **spec: Any) -> Json:
    listed = list(containers) or [{"name": "c", "image": "img:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": listed, **spec},
    }


def _created(pod: Json, *others: Json) -> Json:
    admitted = rules(POD).admit_create(rules(POD).default(pod), FakeCluster(*others))
    assert isinstance(admitted, dict), admitted
    admitted["metadata"]["creationTimestamp"] = "2024-01-01T00:00:00Z"
    admitted["metadata"]["resourceVersion"] = "1"
    return rules(POD).prepare_create(admitted)


def _causes(pod: Json) -> list[str]:
    return [str(error) for error in rules(POD).validate_create(_created(pod))]


def _update(old: Json, **spec: Any) -> tuple[Json, list[str]]:
    asked = {**old, "spec": {**old["spec"], **spec}}
    new = rules(POD).prepare_update(rules(POD).default(asked), old)
    return new, [str(error) for error in rules(POD).validate_update(new, old)]


def test_defaults_do_not_change_the_argument() -> None:
    """Defaults do not change the argument."""
    pod = _pod()
    rules(POD).default(pod)
    assert pod == _pod()


def test_a_created_pod_is_valid_pending_and_counted() -> None:
    """A created pod is valid pending and counted."""
    pod = _created(_pod())
    assert rules(POD).validate_create(pod) == []
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert pod["metadata"]["generation"] == 1
    assert pod["spec"]["priority"] == 0
    assert [t["tolerationSeconds"] for t in pod["spec"]["tolerations"]] == [300, 300]


def test_defaulting_twice_changes_nothing_more() -> None:
    """Defaulting twice changes nothing more."""
    once = rules(POD).default(_pod(hostNetwork=True, volumes=[{"name": "v"}]))
    assert rules(POD).default(once) == once


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m"}},
            "Guaranteed",
        ),
        ({"limits": {"example.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_quality_of_service_follows_the_resources(resources: Json, qos: str) -> None:
    """Quality of service follows the resources."""
    pod = _created(_pod({"name": "c", "image": "i:1", "resources": resources}))
    assert pod["status"]["qosClass"] == qos


def test_requests_are_rounded_up_to_thousandths() -> None:
    """Requests are rounded up to thousandths."""
    amounts = {"requests": {"cpu": "100u"}}
    pod = _created(_pod({"name": "c", "image": "i:1", "resources": amounts}))
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1m"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("img", "Always"),
        ("img:latest", "Always"),
        ("reg.example.com:5000/x/img", "Always"),
        ("img:1", "IfNotPresent"),
        ("img@sha256:" + "0" * 64, "IfNotPresent"),
        ("Not A Name", "IfNotPresent"),
    ],
)
def test_only_the_latest_image_is_always_pulled(image: str, policy: str) -> None:
    """Only the latest image is always pulled."""
    pod = rules(POD).default(_pod({"name": "c", "image": image}))
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_gates_hold_a_pod_back_and_can_only_be_removed() -> None:
    """Gates hold a pod back and can only be removed."""
    pod = _created(_pod(schedulingGates=[{"name": "a"}, {"name": "b"}]))
    assert pod["status"]["conditions"][0]["reason"] == "SchedulingGated"
    new, errors = _update(pod, schedulingGates=[{"name": "b"}])
    assert errors == []
    assert new["metadata"]["generation"] == 2
    _, errors = _update(pod, schedulingGates=[{"name": "a"}, {"name": "c"}])
    assert errors == [
        "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, "
        "but found new scheduling gate 'c'"
    ]


def test_a_gated_pod_can_be_narrowed_but_not_widened() -> None:
    """A gated pod can be narrowed but not widened."""
    pod = _created(_pod(schedulingGates=[{"name": "g"}], nodeSelector={"x": "y"}))
    assert _update(pod, nodeSelector={"x": "y", "a": "b"})[1] == []
    assert _update(pod, nodeSelector={"a": "b"})[1] == [
        'spec.nodeSelector: Invalid value: {"a":"b"}: only additions to spec.nodeSelector are '
        "allowed (no mutations or deletions)"
    ]


def test_most_of_a_pod_cannot_change() -> None:
    """Most of a pod cannot change."""
    pod = _created(_pod())
    _, errors = _update(pod, schedulerName="other")
    assert len(errors) == 1
    assert errors[0].startswith("spec: Forbidden: pod updates may not change fields other than")
    assert '+ "schedulerName": "other"' in errors[0]


def test_images_and_added_tolerations_can_change() -> None:
    """Images and added tolerations can change."""
    pod = _created(_pod())
    more = [*pod["spec"]["tolerations"], {"key": "k", "operator": "Exists"}]
    image = [{**pod["spec"]["containers"][0], "image": "img:2"}]
    assert _update(pod, tolerations=more, containers=image)[1] == []
    assert _update(pod, tolerations=more[1:])[1] == [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its "
        "tolerationSeconds"
    ]


def test_a_status_update_changes_neither_spec_nor_owners() -> None:
    """A status update changes neither spec nor owners."""
    pod = _created(_pod())
    asked = {**pod, "spec": {}, "status": {"phase": "Running"}}
    new = rules(POD).prepare_update(asked, pod, subresource="status")
    assert new["spec"] == pod["spec"]
    assert new["status"] == {"phase": "Running", "qosClass": "BestEffort"}
    assert rules(POD).validate_update(new, pod, subresource="status") == []


def test_a_container_that_may_not_restart_stays_terminated() -> None:
    """A container that may not restart stays terminated."""
    pod = _created(_pod(restartPolicy="Never"))
    ended = {"name": "c", "state": {"terminated": {"exitCode": 0}}}
    running = {"name": "c", "state": {"running": {}}}
    old = {**pod, "status": {**pod["status"], "containerStatuses": [ended]}}
    new = {**pod, "status": {**pod["status"], "containerStatuses": [running]}}
    errors = rules(POD).validate_update(new, old, subresource="status")
    assert [error.field for error in errors] == ["status.containerStatuses[0].state"]


def test_priority_comes_from_the_class_and_nowhere_else() -> None:
    """Priority comes from the class and nowhere else."""
    found = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 7,
        "globalDefault": True,
        "preemptionPolicy": "Never",
    }
    pod = _created(_pod(), found)
    assert (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) == ("high", 7)
    assert pod["spec"]["preemptionPolicy"] == "Never"
    asked = rules(POD).default(_pod(priority=8, priorityClassName="high"))
    refused = rules(POD).admit_create(asked, FakeCluster(found))
    assert isinstance(refused, AdmissionRefused)
    assert refused.reason.startswith("the integer value of priority (8) must not be provided")


def test_limit_ranges_complete_and_bound_containers() -> None:
    """Limit ranges complete and bound containers."""
    limit = {"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l", "namespace": "n"},
        "spec": {"limits": [limit | {"defaultRequest": {"cpu": "500m"}}]},
    }
    pod = _created(_pod(), limits)
    assert pod["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "500m"},
        "limits": {"cpu": "1"},
    }
    assert rules(POD).check_create(pod, FakeCluster(limits)) is None
    pod["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "3"}
    refused = rules(POD).check_create(pod, FakeCluster(limits))
    assert refused == AdmissionRefused("maximum cpu usage per Container is 2, but limit is 3")


def test_a_pod_on_a_node_takes_over_its_zone() -> None:
    """A pod on a node takes over its zone."""
    zone = {"topology.kubernetes.io/zone": "z", "other": "x"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m", "labels": zone}}
    pod = _created(_pod(nodeName="m"), node)
    assert pod["metadata"]["labels"] == {"topology.kubernetes.io/zone": "z"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"restartPolicy": "X"}, "spec.restartPolicy"),
        ({"hostname": "A"}, "spec.hostname"),
        ({"volumes": [{"name": "a"}, {"name": "a"}]}, "spec.volumes[1].name"),
        ({"tolerations": [{"key": "a", "effect": "X"}]}, "spec.tolerations[0].effect"),
        ({"dnsPolicy": "None"}, "spec.dnsConfig"),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds"),
        ({"initContainers": [{"name": "c", "image": "i"}]}, "spec.initContainers[0].name"),
        ({"hostAliases": [{"ip": "1.2.3"}]}, "spec.hostAliases[0].ip"),
        ({"os": {"name": "plan9"}}, "spec.os"),
        ({"overhead": {"cpu": "-1"}}, "spec.overhead.limits[cpu]"),
        ({"readinessGates": [{"conditionType": "a b"}]}, "spec.readinessGates[0].conditionType"),
    ],
)
def test_the_field_at_fault_is_named(spec: Json, field: str) -> None:
    """The field at fault is named."""
    pod = rules(POD).prepare_create(rules(POD).default(_pod(**spec)))
    assert [error.field for error in rules(POD).validate_create(pod)] == [field]


def test_requests_may_not_exceed_limits() -> None:
    """Requests may not exceed limits."""
    amounts = {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}
    assert _causes(_pod({"name": "c", "image": "i:1", "resources": amounts})) == [
        'spec.containers[0].resources.requests: Invalid value: "2Gi": must be less than or equal '
        "to memory limit of 1Gi"
    ]


def test_resizing_may_not_change_the_quality_of_service() -> None:
    """Resizing may not change the quality of service."""
    amounts = {"requests": {"cpu": "1"}}
    pod = _created(_pod({"name": "c", "image": "i:1", "resources": amounts}))
    asked = {**pod, "spec": {**pod["spec"], "containers": [{"name": "c", "resources": {}}]}}
    new = rules(POD).prepare_update(asked, pod, subresource="resize")
    assert new["spec"]["containers"][0]["image"] == "i:1"
    errors = rules(POD).validate_update(new, pod, subresource="resize")
    assert [error.field for error in errors] == [
        "spec",
        "spec.containers[0].resources.requests",
    ]
