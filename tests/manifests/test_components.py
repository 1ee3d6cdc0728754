"""What is deployed by which name."""

from __future__ import annotations

from numakube.manifests.components import (
    ALL,
    COMPONENTS,
    DEFAULT,
    ON_REQUEST,
    Choices,
    in_order,
    objects_of,
)


def test_what_changes_running_pods_or_requests_has_to_be_named() -> None:
    """Neither "all" nor the default has it."""
    assert set(in_order([ALL])) == COMPONENTS.keys() - ON_REQUEST
    assert not ON_REQUEST & set(DEFAULT)
    assert in_order([ALL, "enforcer"]) == [
        name for name in COMPONENTS if name not in ON_REQUEST or name == "enforcer"
    ]


def test_the_enforcer_has_no_right_and_no_capability_that_it_does_not_use() -> None:
    """It reads pods and nodes, writes events, and writes two folders of its host."""
    objects = objects_of(["enforcer"], Choices())
    by_kind = {one["kind"]: one for one in objects}
    allowed = [(one["resources"], one["verbs"]) for one in by_kind["ClusterRole"]["rules"]]
    assert allowed == [(["pods", "nodes"], ["list", "watch"]), (["events"], ["create", "patch"])]
    pod = by_kind["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "privileged" not in container["securityContext"]
    assert not {"hostPID", "hostNetwork", "hostIPC"} & pod.keys()
    paths = {one["name"]: one["hostPath"]["path"] for one in pod["volumes"]}
    writable = {paths[one["name"]] for one in container["volumeMounts"] if not one.get("readOnly")}
    assert writable == {"/sys/fs/cgroup", "/var/lib/numakube-enforcer"}


def test_exporters_tell_what_koordlet_tells_only_if_asked() -> None:
    """As an option of deployments."""
    for asked in (False, True):
        objects = objects_of(["exporter"], Choices(koordinator=asked))
        (exporters,) = (one for one in objects if one["kind"] == "DaemonSet")
        (container,) = exporters["spec"]["template"]["spec"]["containers"]
        assert ("--koordinator" in container["args"]) is asked
