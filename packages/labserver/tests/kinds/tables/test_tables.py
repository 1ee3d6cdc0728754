"""What tables show of objects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from packages.labserver.tests.kinds.kind_rules import rules

from kube_lab_server import GVK, Json
from kube_lab_server.catalogue.tables import BuiltinColumns

_NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
_META = {"name": "x", "creationTimestamp": "2024-05-01T11:00:00Z"}


def _cells(group: str, kind: str, version: str = "v1", **parts: Any) -> list[Any]:
    parts["metadata"] = _META | parts.pop("metadata", {})
    return BuiltinColumns(rules(GVK(group, version, kind)).table).row(parts, _NOW).cells


def _pod_status(status: Json, spec: Json | None = None, metadata: Json | None = None) -> list[Any]:
    whole = {"containers": [{"name": "a"}, {"name": "b"}]} | (spec or {})
    return _cells("", "Pod", spec=whole, status=status, metadata=metadata or {})[1:4]


def _state(name: str, **state: Any) -> Json:
    return {"name": name, "restartCount": state.pop("restarts", 0), **state}


def test_every_row_has_a_cell_per_column() -> None:
    """Every row has a cell per column."""
    for kind in ("Pod", "Node", "Service", "Namespace", "ConfigMap", "Event"):
        columns = BuiltinColumns(rules(GVK("", "v1", kind)).table).definitions()
        assert len(_cells("", kind, spec={}, status={})) == len(columns)


def test_a_kind_without_a_table_shows_when_objects_were_created() -> None:
    """A kind without a table shows when objects were created."""
    assert [
        column["name"]
        for column in BuiltinColumns(rules(GVK("", "v1", "LimitRange")).table).definitions()
    ] == [
        "Name",
        "Created At",
    ]
    assert _cells("", "LimitRange") == ["x", "2024-05-01T11:00:00Z"]


def test_a_pod_shows_its_reason_before_its_phase() -> None:
    """A pod shows its reason before its phase."""
    assert _pod_status({"phase": "Failed", "reason": "Evicted"}) == ["0/2", "Evicted", "0"]


def test_the_row_of_an_ended_pod_is_completed() -> None:
    """The row of an ended pod is completed."""
    pod = {"metadata": _META, "status": {"phase": "Succeeded"}}
    (condition,) = BuiltinColumns(rules(GVK("", "v1", "Pod")).table).row(pod, _NOW).conditions
    assert (condition["type"], condition["reason"]) == ("Completed", "Succeeded")


def test_a_pod_shows_restarts_and_the_last_of_them() -> None:
    """A pod shows restarts and the last of them."""
    ended = {"terminated": {"exitCode": 1, "finishedAt": "2024-05-01T11:55:00Z"}}
    running: Json = {"running": {}}
    states = [
        _state("a", ready=True, state=running, restarts=2, lastState=ended),
        _state("b", ready=False, state=running),
    ]
    shown = _pod_status({"phase": "Running", "containerStatuses": states})
    assert shown == ["1/2", "Running", "2 (5m ago)"]


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ({"terminated": {"exitCode": 3}}, "Init:ExitCode:3"),
        ({"terminated": {"exitCode": 3, "signal": 9}}, "Init:Signal:9"),
        ({"terminated": {"exitCode": 3, "reason": "Error"}}, "Init:Error"),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, "Init:CrashLoopBackOff"),
        ({"waiting": {"reason": "PodInitializing"}}, "Init:0/1"),
        ({"terminated": {"exitCode": 0}}, "Pending"),
    ],
)
def test_a_pod_shows_how_its_initialization_goes(state: Json, shown: str) -> None:
    """A pod shows how its initialization goes."""
    status = {"phase": "Pending", "initContainerStatuses": [_state("i", state=state)]}
    assert _pod_status(status, {"initContainers": [{"name": "i"}]})[1] == shown


def test_a_sidecar_counts_as_a_container() -> None:
    """A sidecar counts as a container."""
    spec = {"initContainers": [{"name": "s", "restartPolicy": "Always"}]}
    sidecar = _state("s", started=True, ready=True, state={"running": {}}, restarts=1)
    status = {"phase": "Running", "initContainerStatuses": [sidecar]}
    assert _pod_status(status, spec) == ["1/3", "Running", "1"]


def test_a_pod_of_which_a_container_has_completed_runs_if_it_is_ready() -> None:
    """A pod of which a container has completed runs if it is ready."""
    states = [
        _state("a", state={"terminated": {"exitCode": 0, "reason": "Completed"}}),
        _state("b", ready=True, state={"running": {}}),
    ]
    ready = {"type": "Ready", "status": "True"}
    status: Json = {"phase": "Running", "containerStatuses": states}
    assert _pod_status(status)[1] == "NotReady"
    assert _pod_status(status | {"conditions": [ready]})[1] == "Running"


def test_a_pod_that_is_being_deleted_terminates() -> None:
    """A pod that is being deleted terminates."""
    metadata = {"deletionTimestamp": "2024-05-01T11:59:00Z"}
    assert _pod_status({"phase": "Running"}, metadata=metadata)[1] == "Terminating"
    assert _pod_status({"phase": "Failed"}, metadata=metadata)[1] == "Failed"
    lost = {"phase": "Running", "reason": "NodeLost"}
    assert _pod_status(lost, metadata=metadata)[1] == "Unknown"


def test_a_pod_behind_gates_says_so() -> None:
    """A pod behind gates says so."""
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    assert _pod_status({"phase": "Pending", "conditions": [gated]})[1] == "SchedulingGated"


def test_a_node_shows_roles_and_whether_it_takes_pods() -> None:
    """A node shows roles and whether it takes pods."""
    labels = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    cells = _cells(
        "", "Node", metadata={"labels": labels}, spec={"unschedulable": True}, status=ready
    )
    assert cells[1:3] == ["Ready,SchedulingDisabled", "gpu,worker"]


def test_a_selector_is_shown_as_it_would_be_written() -> None:
    """A selector is shown as it would be written."""
    selector = {
        "matchLabels": {"b": "1"},
        "matchExpressions": [
            {"key": "a", "operator": "NotIn", "values": ["z", "y"]},
            {"key": "c", "operator": "DoesNotExist"},
        ],
    }
    cells = _cells("apps", "ReplicaSet", spec={"selector": selector})
    assert cells[-1] == "a notin (y,z),b=1,!c"


def test_a_job_shows_completions_of_as_many_as_run_at_once() -> None:
    """A job shows completions of as many as run at once."""
    assert _cells("batch", "Job", spec={"parallelism": 3})[2] == "0/1 of 3"
    assert _cells("batch", "Job", spec={"completions": 2}, status={"succeeded": 1})[2] == "1/2"


def test_a_job_shows_how_long_it_took() -> None:
    """A job shows how long it took."""
    status = {"startTime": "2024-05-01T10:00:00Z", "completionTime": "2024-05-01T10:02:30Z"}
    assert _cells("batch", "Job", spec={}, status=status)[3] == "2m30s"


def test_a_service_shows_ports_on_nodes() -> None:
    """A service shows ports on nodes."""
    ports = [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]
    cells = _cells("", "Service", spec={"type": "LoadBalancer", "ports": ports})
    assert cells[3:5] == ["<pending>", "80:30080/TCP"]


def test_endpoints_beyond_three_are_counted() -> None:
    """Endpoints beyond three are counted."""
    addresses = [{"ip": f"10.0.0.{n}"} for n in range(5)]
    cells = _cells("", "Endpoints", subsets=[{"addresses": addresses, "ports": [{"port": 1}]}])
    assert cells[1] == "10.0.0.0:1,10.0.0.1:1,10.0.0.2:1 + 2 more..."


def test_hosts_beyond_three_are_counted() -> None:
    """Hosts beyond three are counted."""
    rules = [{"host": f"h{n}"} for n in range(4)]
    assert _cells("networking.k8s.io", "Ingress", spec={"rules": rules})[2] == (
        "h0,h1,h2 + 1 more..."
    )
    assert _cells("networking.k8s.io", "Ingress", spec={"rules": [{}]})[2] == "*"


def test_an_autoscaler_shows_metrics_in_both_versions() -> None:
    """An autoscaler shows metrics in both versions."""
    cpu = {"name": "cpu", "target": {"averageUtilization": 80}}
    current = {"name": "cpu", "current": {"averageUtilization": 20}}
    new = _cells(
        "autoscaling",
        "HorizontalPodAutoscaler",
        "v2",
        spec={"metrics": [{"type": "Resource", "resource": cpu}]},
        status={"currentMetrics": [{"type": "Resource", "resource": current}]},
    )
    old = _cells(
        "autoscaling",
        "HorizontalPodAutoscaler",
        spec={"targetCPUUtilizationPercentage": 80},
        status={"currentCPUUtilizationPercentage": 20},
    )
    assert new[2] == old[2] == "cpu: 20%/80%"


def test_events_of_both_groups_show_the_same() -> None:
    """Events of both groups show the same."""
    target = {"kind": "Pod", "name": "p"}
    common = {"type": "Normal", "reason": "R"}
    core = _cells(
        "",
        "Event",
        involvedObject=target,
        message=" m\n",
        count=2,
        firstTimestamp="2024-05-01T11:50:00Z",
        lastTimestamp="2024-05-01T11:59:00Z",
        source={"component": "c"},
        **common,
    )
    new = _cells(
        "events.k8s.io",
        "Event",
        regarding=target,
        note=" m\n",
        deprecatedCount=2,
        deprecatedFirstTimestamp="2024-05-01T11:50:00Z",
        deprecatedLastTimestamp="2024-05-01T11:59:00Z",
        deprecatedSource={"component": "c"},
        **common,
    )
    assert core == new
    assert core == ["60s", "Normal", "R", "pod/p", "", "c", "m", "10m", 2, "x"]


def test_a_claim_shows_its_volume_once_it_is_bound() -> None:
    """A claim shows its volume once it is bound."""
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    spec = {"storageClassName": "s"}
    assert _cells("", "PersistentVolumeClaim", spec=spec, status=status)[2:6] == ["", "", "", "s"]
    bound = _cells("", "PersistentVolumeClaim", spec=spec | {"volumeName": "v"}, status=status)
    assert bound[2:6] == ["v", "1Gi", "RWO", "s"]


def test_a_quota_shows_requests_and_limits_apart() -> None:
    """A quota shows requests and limits apart."""
    status = {"hard": {"pods": "4", "limits.cpu": "2"}, "used": {"pods": "1"}}
    assert _cells("", "ResourceQuota", status=status)[1:3] == ["pods: 1/4", "limits.cpu: 0/2"]
