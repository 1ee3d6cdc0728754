"""What is deployed by which name."""

from __future__ import annotations

import pytest

from numakube.errors import ConfigError
from numakube.manifests.components import (
    ALL,
    COMPONENTS,
    DEFAULT,
    ON_REQUEST,
    Choices,
    in_order,
    objects_of,
)
from numakube.manifests.exporter import PoolExporter, PoolExporters


def test_what_changes_running_pods_or_requests_has_to_be_named() -> None:
    """Neither "all" nor the default has it."""
    assert set(in_order([ALL])) == COMPONENTS.keys() - ON_REQUEST
    assert not ON_REQUEST & set(DEFAULT)
    assert in_order([ALL, "enforcer"]) == [
        name for name in COMPONENTS if name not in ON_REQUEST or name == "enforcer"
    ]


@pytest.mark.parametrize("component", [name for name in COMPONENTS if name != "api"])
def test_components_deployed_later_let_agents_of_nodes_run_on(component: str) -> None:
    """All say the same of the namespace that they share, or one would undo what another needs."""
    objects = objects_of([component], Choices())
    (home,) = (item for item in objects if item["kind"] == "Namespace")
    assert home["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def test_the_enforcer_has_no_right_and_no_capability_that_it_does_not_use() -> None:
    """It reads pods and nodes, writes events, and writes two folders of its host."""
    objects = objects_of(["enforcer"], Choices())
    by_kind = {item["kind"]: item for item in objects}
    allowed = [(rule["resources"], rule["verbs"]) for rule in by_kind["ClusterRole"]["rules"]]
    assert allowed == [(["pods", "nodes"], ["list", "watch"]), (["events"], ["create", "patch"])]
    pod = by_kind["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "privileged" not in container["securityContext"]
    assert not {"hostPID", "hostNetwork", "hostIPC"} & pod.keys()
    paths = {
        volume["name"]: volume["hostPath"]["path"]
        for volume in pod["volumes"]
        if "hostPath" in volume
    }
    writable = {
        paths[mount["name"]] for mount in container["volumeMounts"] if not mount.get("readOnly")
    }
    assert writable == {"/sys/fs/cgroup", "/var/lib/numakube-enforcer"}


def test_exporters_tell_what_koordlet_tells_only_if_asked() -> None:
    """As an option of deployments."""
    for asked in (False, True):
        objects = objects_of(["exporter"], Choices(koordinator=asked))
        (exporters,) = (item for item in objects if item["kind"] == "DaemonSet")
        (container,) = exporters["spec"]["template"]["spec"]["containers"]
        assert ("--koordinator" in container["args"]) is asked


def test_only_exporters_that_measure_read_the_hosts_processes() -> None:
    """They are not in its namespace of processes: root there could end any of them."""
    for asked in (False, True):
        objects = objects_of(["exporter"], Choices(measure=asked))
        (exporters,) = (item for item in objects if item["kind"] == "DaemonSet")
        spec = exporters["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert "hostPID" not in spec
        assert {"--measure", "--procfs=/host-proc"}.issubset(container["args"]) is asked
        mounts = [one for one in container["volumeMounts"] if one["name"] == "host-proc"]
        assert mounts == (
            [{"name": "host-proc", "mountPath": "/host-proc", "readOnly": True}] if asked else []
        )


@pytest.mark.parametrize(("asked", "found"), [("", []), ("5m", ["--max-silence=5m"])])
def test_exporters_report_only_surprises_only_if_asked(asked: str, found: list[str]) -> None:
    """Others may read their reports."""
    objects = objects_of(["exporter"], Choices(max_silence=asked))
    (exporters,) = (item for item in objects if item["kind"] == "DaemonSet")
    (container,) = exporters["spec"]["template"]["spec"]["containers"]
    assert [one for one in container["args"] if "silence" in one] == found


def test_the_proposed_version_is_served_only_if_asked_for() -> None:
    """D27: with the webhook that converts it, which then may change that one definition."""
    plain = objects_of(["api", "webhook"], Choices())
    definition = next(item for item in plain if item["kind"] == "CustomResourceDefinition")
    assert [version["name"] for version in definition["spec"]["versions"]] == [
        "v1alpha1",
        "v1alpha2",
    ]
    assert "customresourcedefinitions" not in str(plain)
    proposed = objects_of(["api", "webhook"], Choices(namespace="numa", nrt_v1beta1=True))
    definition = next(item for item in proposed if item["kind"] == "CustomResourceDefinition")
    stored = {version["name"]: version["storage"] for version in definition["spec"]["versions"]}
    assert stored == {"v1alpha1": False, "v1alpha2": True, "v1beta1": False}
    service = definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
    assert (service["namespace"], service["path"]) == ("numa", "/convert")
    rules = next(
        item for item in proposed if item["kind"] == "ClusterRole" and "webhook" in str(item)
    )
    (right,) = [rule for rule in rules["rules"] if "customresourcedefinitions" in rule["resources"]]
    assert right["resourceNames"] == [definition["metadata"]["name"]]
    deployment = next(item for item in proposed if item["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert f"--definition={definition['metadata']['name']}" in container["args"]


def test_the_proposed_version_needs_what_converts_it() -> None:
    """D27: without it every other version would be out of reach."""
    with pytest.raises(ConfigError, match="needs the component webhook"):
        objects_of(["api", "exporter"], Choices(nrt_v1beta1=True))
    assert objects_of(["webhook"], Choices(nrt_v1beta1=True))


def test_requests_of_our_accounts_have_a_priority_level_of_their_own() -> None:
    """Every account of the namespace, each a flow; leases go where other leases go."""
    objects = objects_of(["api"], Choices(namespace="numa"))
    (level,) = (item for item in objects if item["kind"] == "PriorityLevelConfiguration")
    schemas = {
        item["metadata"]["name"]: item["spec"] for item in objects if item["kind"] == "FlowSchema"
    }
    leases, requests = schemas["numakube-leases-numa"], schemas["numakube-requests-numa"]
    assert leases["priorityLevelConfiguration"]["name"] == "leader-election"
    assert requests["priorityLevelConfiguration"]["name"] == level["metadata"]["name"]
    assert leases["matchingPrecedence"] < requests["matchingPrecedence"] < 9000
    for schema in schemas.values():
        assert schema["distinguisherMethod"] == {"type": "ByUser"}
        (rule,) = schema["rules"]
        (subject,) = rule["subjects"]
        assert subject["serviceAccount"] == {"namespace": "numa", "name": "*"}


def test_exporters_on_openshift_are_not_started_before_their_certificate_is_there() -> None:
    """The kubelet waits for the Secret that the service CA writes; a crash would count restarts."""
    pools = (PoolExporter(name="p"),)
    manifest = PoolExporters(namespace="n", image="i", openshift=True, pools=pools)
    pod = manifest.daemon_set(pools[0])["spec"]["template"]["spec"]
    (secret,) = (volume["secret"] for volume in pod["volumes"] if "secret" in volume)
    assert secret == {"secretName": "rte-metrics-service-cert"}
