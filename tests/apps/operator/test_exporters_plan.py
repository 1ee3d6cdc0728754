"""What the operator decides about exporters, from the present state alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from numakube.api.affinity_and_taints import Toleration
from numakube.api.meta import LabelSelector, ObjectMeta, OwnerReference
from numakube.api.numaresources import (
    MachineConfigPool,
    MachineConfigPoolSpec,
    NamespacedName,
    NodeGroup,
    NodeGroupConfig,
    NUMAResourcesOperator,
    OperatorSpec,
)
from numakube.api.workloads import (
    ConfigMap,
    DaemonSet,
    DaemonSetStatus,
)
from numakube.api.yaml_text import load_yaml
from numakube.apps.operator.exporters_plan import (
    KubeletConfigObject,
    KubeletConfigSpec,
    Seen,
    Setup,
    plan_exporters,
)
from numakube.apps.operator.planned_actions import Apply, Made, OperatorPlan, PlannedState, Remove
from numakube.kube.resource_types import Document

SETUP = Setup(namespace="ns", image="registry.example/numakube:1")
NAME = "numaresourcesoperator"
POOL = f"{NAME}-worker"


def wanted(
    *groups: NodeGroup, annotations: Mapping[str, str] | None = None, **spec: Any
) -> NUMAResourcesOperator:
    """Return the user's object."""
    metadata = ObjectMeta(name=NAME, uid="u", annotations=dict(annotations or {}))
    groups = groups or (NodeGroup(pool_name="worker"),)
    return NUMAResourcesOperator(metadata=metadata, spec=OperatorSpec(node_groups=groups, **spec))


def planned(seen: Seen, setup: Setup = SETUP) -> OperatorPlan:
    """Return the plan, which there must be."""
    plan = plan_exporters(seen, setup)
    assert plan is not None
    return plan


def applied(plan: OperatorPlan, kind: str) -> dict[str, Document]:
    """Return the objects of a kind that a plan applies."""
    found = [action.document for action in plan.actions if isinstance(action, Apply)]
    return {item["metadata"]["name"]: item for item in found if item["kind"] == kind}


def arguments(plan: OperatorPlan, name: str = POOL) -> list[str]:
    """Return the flags of a pool's exporters."""
    (container,) = applied(plan, "DaemonSet")[name]["spec"]["template"]["spec"]["containers"]
    found: list[str] = container["args"]
    return found


def daemon_set(name: str = POOL, *, ready: bool = True, owner: str = "u") -> DaemonSet:
    """Return a DaemonSet on three nodes."""
    reference = OwnerReference(api_version="x", kind="y", name="z", uid=owner)
    count = 3 if ready else 2
    return DaemonSet(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=f"uid-{name}",
            generation=2,
            owner_references=(reference,),
        ),
        status=DaemonSetStatus(
            desired_number_scheduled=3,
            number_ready=count,
            updated_number_scheduled=3,
            observed_generation=2,
        ),
    )


def test_all_objects_are_owned_and_the_definition_is_nobodys() -> None:
    """Topologies outlive the operator: others write them too."""
    plan = planned(Seen(object=wanted()))
    kinds = [action.document["kind"] for action in plan.actions if isinstance(action, Apply)]
    assert kinds == [
        *("CustomResourceDefinition", "CustomResourceDefinition"),
        *("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
        *("NetworkPolicy", "NetworkPolicy", "NetworkPolicy"),
        *("DaemonSet", "Service"),
    ]
    for action in plan.actions:
        assert isinstance(action, Apply)
        owners = action.document["metadata"].get("ownerReferences", [])
        expected = [] if action.document["kind"] == "CustomResourceDefinition" else ["u"]
        assert [owner["uid"] for owner in owners] == expected
    assert plan.verdict.state is PlannedState.PROGRESSING
    assert plan.verdict.message == f"ns/{POOL} is updating"


def test_the_default_exporter() -> None:
    """A fingerprint of pods with exclusive resources, every ten seconds."""
    found = arguments(planned(Seen(object=wanted())))
    assert found[0] == "exporter"
    assert "--sleep-interval=10s" in found
    assert "--pods-fingerprint-method=with-exclusive-resources" in found
    assert "--metrics-mode=http" in found
    assert not [one for one in found if one.startswith(("--notify-file", "--no-publish"))]


@pytest.mark.parametrize(
    ("config", "present", "absent"),
    [
        (
            NodeGroupConfig(pods_fingerprinting="Disabled"),
            ["--no-pods-fingerprint"],
            ["--pods-fingerprint"],
        ),
        (
            NodeGroupConfig(pods_fingerprinting="Enabled"),
            ["--pods-fingerprint", "--pods-fingerprint-method=all"],
            [],
        ),
        (NodeGroupConfig(info_refresh_period="12s"), ["--sleep-interval=12s"], []),
        (
            NodeGroupConfig(info_refresh_mode="Events"),
            ["--sleep-interval=0s", "--notify-file=/host-run-rte/notify"],
            [],
        ),
        (
            NodeGroupConfig(info_refresh_mode="PeriodicAndEvents", info_refresh_period="1m"),
            ["--sleep-interval=1m", "--notify-file=/host-run-rte/notify"],
            [],
        ),
        (NodeGroupConfig(info_refresh_pause="Enabled"), ["--no-publish"], []),
        (NodeGroupConfig(max_silence="5m"), ["--max-silence=5m"], ["--measure"]),
        (NodeGroupConfig(measure="Enabled"), ["--measure", "--procfs=/host-proc"], []),
        (NodeGroupConfig(measure="Disabled"), [], ["--measure"]),
    ],
)
def test_flags_follow_the_groups_configuration(
    config: NodeGroupConfig, present: list[str], absent: list[str]
) -> None:
    """Each switch has its flag."""
    found = arguments(planned(Seen(object=wanted(NodeGroup(pool_name="worker", config=config)))))
    assert set(present) <= set(found)
    assert not set(absent) & set(found)


def test_tolerations_are_the_groups() -> None:
    """None by default."""
    group = NodeGroup(
        pool_name="worker",
        config=NodeGroupConfig(tolerations=(Toleration(key="a", operator="Exists"),)),
    )
    plan = planned(Seen(object=wanted(group)))
    pod = applied(plan, "DaemonSet")[POOL]["spec"]["template"]["spec"]
    assert pod["tolerations"] == [{"key": "a", "operator": "Exists"}]
    plain = planned(Seen(object=wanted()))
    assert "tolerations" not in applied(plain, "DaemonSet")[POOL]["spec"]["template"]["spec"]


def test_ready_exporters_make_it_available() -> None:
    """And the groups are told."""
    plan = planned(Seen(object=wanted(), daemon_sets={POOL: daemon_set()}))
    assert plan.verdict.state is PlannedState.AVAILABLE
    assert plan.status["daemonsets"] == [{"namespace": "ns", "name": POOL}]
    assert plan.status["nodeGroups"][0]["selector"] == "worker"
    assert plan.status["relatedObjects"] == [
        {"group": "", "resource": "namespaces", "name": "ns"},
        {"group": "machineconfiguration.openshift.io", "resource": "kubeletconfigs", "name": ""},
        {"group": "machineconfiguration.openshift.io", "resource": "machineconfigs", "name": ""},
        {"group": "topology.node.k8s.io", "resource": "noderesourcetopologies", "name": ""},
        {"group": "apps", "resource": "daemonsets", "name": POOL, "namespace": "ns"},
    ]


def test_old_exporters_are_not_ready_ones() -> None:
    """Neither are those that the controller has not looked at since the last change."""
    for change in ({"updated_number_scheduled": 1}, {"observed_generation": 1}):
        one = daemon_set()
        one = msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, **change))
        plan = planned(Seen(object=wanted(), daemon_sets={POOL: one}))
        assert plan.verdict.state is PlannedState.PROGRESSING


def made(*daemon_sets: DaemonSet) -> tuple[Made, ...]:
    """Return DaemonSets as what an operator has made."""
    kind = {"api_version": "apps/v1", "kind": "DaemonSet"}
    return tuple(Made(metadata=one.metadata, **kind) for one in daemon_sets)


def test_what_was_made_for_a_group_that_is_gone_is_removed() -> None:
    """What others own stays, whatever its name."""
    stale = daemon_set(f"{NAME}-old")
    foreign = daemon_set(f"{NAME}-other", owner="somebody")
    plan = planned(Seen(object=wanted(), made=made(daemon_set(), stale, foreign)))
    assert [action for action in plan.actions if isinstance(action, Remove)] == [
        Remove(
            api_version="apps/v1",
            kind="DaemonSet",
            namespace="ns",
            name=f"{NAME}-old",
            uid=f"uid-{NAME}-old",
        )
    ]


def test_no_groups_leave_nothing_on_nodes_and_are_fine() -> None:
    """The lists of the status are emptied, too."""
    nothing = NUMAResourcesOperator(metadata=ObjectMeta(name=NAME, uid="u"))
    plan = planned(Seen(object=nothing, made=made(daemon_set())))
    assert plan.verdict.state is PlannedState.AVAILABLE
    assert (plan.status["daemonsets"], plan.status["nodeGroups"]) == ([], [])
    assert [type(action) for action in plan.actions] == [Remove, Apply, Apply]


def test_a_paused_object_is_left_alone() -> None:
    """Only by the exact word."""
    key = "config.numa-operator.openshift.io/pause-reconciliation"
    assert plan_exporters(Seen(object=wanted(annotations={key: "enabled"})), SETUP) is None
    assert plan_exporters(Seen(object=wanted(annotations={key: "true"})), SETUP) is not None


def test_the_definition_can_be_left_to_the_cluster() -> None:
    """By annotation."""
    key = "config.numa-operator.openshift.io/nrt-api-definition"
    plan = planned(Seen(object=wanted(annotations={key: "cluster"})))
    assert not applied(plan, "CustomResourceDefinition")


def test_an_image_of_the_users_can_be_refused() -> None:
    """It is used otherwise."""
    own = wanted(image_spec="theirs")
    refused = planned(Seen(object=own), replace(SETUP, custom_image=False))
    assert (refused.verdict.reason, refused.verdict.message) == (
        "CustomUserImage",
        "custom operand image is not supported: theirs",
    )
    assert refused.actions == ()
    taken = applied(planned(Seen(object=own)), "DaemonSet")[POOL]
    assert taken["spec"]["template"]["spec"]["containers"][0]["image"] == "theirs"


def test_another_name_is_refused() -> None:
    """There is only one object of the kind."""
    other = NUMAResourcesOperator(metadata=ObjectMeta(name="mine"))
    plan = planned(Seen(object=other))
    assert plan.verdict.reason == "IncorrectNUMAResourcesOperatorResourceName"
    assert plan.verdict.message == "incorrect NUMAResourcesOperator resource name: mine"


def test_excluded_pods_reach_the_exporters_and_make_them_new() -> None:
    """By a ConfigMap whose digest the pods carry."""
    excluded = wanted(pod_excludes=(NamespacedName(namespace="ci", name="job-*"),))
    plan = planned(Seen(object=excluded))
    config = load_yaml(applied(plan, "ConfigMap")[POOL]["data"]["config.yaml"], "config")
    assert config == {
        "kubelet": {},
        "podExclude": [{"namespacePattern": "ci", "namePattern": "job-*"}],
    }
    template = applied(plan, "DaemonSet")[POOL]["spec"]["template"]
    plain = applied(planned(Seen(object=wanted())), "DaemonSet")[POOL]["spec"]["template"]
    hash_ = "configmap.hash"
    assert template["metadata"]["annotations"] != plain["metadata"]["annotations"]
    assert plain["metadata"]["annotations"][hash_] == ""


def test_a_configuration_that_the_user_made_counts() -> None:
    """It is not overwritten; its changes make new exporters."""
    theirs = ConfigMap(metadata=ObjectMeta(name=POOL, namespace="ns"), data={"config.yaml": "a"})
    excluded = wanted(pod_excludes=(NamespacedName(namespace="ci", name="job-*"),))
    plan = planned(Seen(object=excluded, config_maps={POOL: theirs}))
    assert not applied(plan, "ConfigMap")
    template = applied(plan, "DaemonSet")[POOL]["spec"]["template"]
    assert template["metadata"]["annotations"]["configmap.hash"].startswith("SHA256:")


def test_openshift_tells_policy_and_scope_by_its_own_objects() -> None:
    """And asks for security constraints and certificates."""
    pool = MachineConfigPool(
        metadata=ObjectMeta(name="worker", labels={"kind": "w"}),
        spec=MachineConfigPoolSpec(
            node_selector=LabelSelector(match_labels={"role": "worker"}), paused=True
        ),
    )
    config = KubeletConfigObject(
        spec=KubeletConfigSpec(
            machine_config_pool_selector=LabelSelector(match_labels={"kind": "w"}),
            kubelet_config={"topologyManagerPolicy": "single-numa-node", "cpuManagerPolicy": "x"},
        )
    )
    seen = Seen(object=wanted(), machine_config_pools=(pool,), kubelet_configs=(config,))
    plan = planned(seen)
    text = applied(plan, "ConfigMap")[POOL]["data"]["config.yaml"]
    assert load_yaml(text, "config") == {"kubelet": {"topologyManagerPolicy": "single-numa-node"}}
    assert applied(plan, "SecurityContextConstraints")
    assert "--metrics-mode=httptls" in arguments(plan)
    template = applied(plan, "DaemonSet")[POOL]["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"role": "worker"}
    (extra,) = plan.verdict.extras
    assert (extra.type, extra.holds) == ("MachineConfigPoolPaused", True)
    assert extra.message == "detected paused MCPs: worker"


def test_feature_gates_of_the_operator_are_told_to_exporters() -> None:
    """And nothing is where it has none."""
    setup = replace(SETUP, feature_gates="ReportUpdates=false")
    assert arguments(planned(Seen(object=wanted()), setup))[-1] == (
        "--feature-gates=ReportUpdates=false"
    )
    assert not [one for one in arguments(planned(Seen(object=wanted()))) if "gates" in one]
