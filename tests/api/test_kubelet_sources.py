"""A kubelet's configuration from every kind of file that administrators keep it in."""

from __future__ import annotations

import pytest

from numakube.api.kubelet_flags import configuration, read_flags, write_flags
from numakube.api.kubelet_sources import flags_in, merged, read_source
from numakube.errors import MalformedObject

FILE = "kind: KubeletConfiguration\ncpuManagerPolicy: none\nevictionHard: {memory.available: 5%}\n"
DROP_IN = "kind: KubeletConfiguration\ntopologyManagerPolicy: restricted\n"
OPENSHIFT = """
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata: {name: numa}
spec:
  machineConfigPoolSelector: {matchLabels: {custom-kubelet: numa}}
  kubeletConfig: {topologyManagerPolicy: single-numa-node, cpuManagerPolicy: static}
"""
UNIT = """
[Service]
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
Environment=KUBELET_KUBECONFIG_ARGS=--kubeconfig=/etc/kubernetes/kubelet.conf
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet --cpu-manager-policy=none $KUBELET_CONFIG_ARGS $KUBELET_EXTRA_ARGS
"""


@pytest.mark.parametrize(
    "text",
    [
        'KUBELET_EXTRA_ARGS="--cpu-manager-policy=static --reserved-cpus=0 --v=2"\n',
        "KUBELET_EXTRA_ARGS=--cpu-manager-policy=static --reserved-cpus 0\n",
        "# a\nexport KUBELET_EXTRA_ARGS='--cpu-manager-policy=static \\\n --reserved-cpus=0'\n",
        'KUBELET_EXTRA_ARGS=--v=4\nKUBELET_EXTRA_ARGS="--cpu-manager-policy=static"'
        "\nKUBELET_KUBEADM_ARGS=--reserved-cpus=0\n",
        "[Service]\nExecStart=/usr/bin/kubelet --cpu-manager-policy=static --reserved-cpus=0\n",
    ],
)
def test_flags_are_read_from_files_of_systemd(text: str) -> None:
    """As systemd reads them: quotes, continued lines, and the last of a name."""
    found = merged([read_source(text, "/etc/default/kubelet")])

    assert (found.cpu_manager_policy, found.reserved_system_cpus) == ("static", "0")


def test_an_empty_variable_says_nothing() -> None:
    """Packages install such a file."""
    assert read_source("KUBELET_EXTRA_ARGS=\n", "f").arguments == ()
    assert read_source("KUBELET_EXTRA_ARGS=\n", "f").tree == {}


def test_a_unit_names_the_configuration_file() -> None:
    """Flags of the command itself and of variables."""
    source = read_source(UNIT, "kubelet.service")

    assert flags_in([source]).config == "/var/lib/kubelet/config.yaml"
    assert merged([source]).cpu_manager_policy == "none"


def test_flags_win_over_drop_ins_and_these_over_the_file() -> None:
    """In whichever order they are given."""
    flags = read_source("KUBELET_EXTRA_ARGS=--cpu-manager-policy=static", "f")
    found = merged([flags, read_source(FILE, "f"), read_source(DROP_IN, "d")])

    assert found.cpu_manager_policy == "static"
    assert found.topology_manager_policy == "restricted"
    assert found.eviction_hard == {"memory.available": "5%"}


def test_an_object_of_openshift_has_a_configuration_inside() -> None:
    """Its other fields say which machines it is for."""
    found = merged([read_source(OPENSHIFT, "numa.yaml")])

    assert (found.topology_manager_policy, found.cpu_manager_policy) == (
        "single-numa-node",
        "static",
    )


def test_the_answer_of_a_kubelet_is_read_as_well() -> None:
    """What /configz says."""
    text = '{"kubeletconfig": {"cpuManagerPolicy": "static", "fieldOfLater": 1}}'
    source = read_source(text, "configz")

    assert merged([source]).cpu_manager_policy == "static"
    assert source.unknown == ("fieldOfLater",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kind: Pod\n", "a Pod, not a KubeletConfiguration"),
        ("cpuManagerPolicies: static\n", "did you mean cpuManagerPolicy"),
        ('KUBELET_EXTRA_ARGS="--v=2\n', "No closing quotation"),
        ("- op: replace\n", "not a KubeletConfiguration"),
    ],
)
def test_other_files_are_refused_by_name(text: str, why: str) -> None:
    """With what is wrong."""
    with pytest.raises(MalformedObject, match=why) as caught:
        read_source(text, "some.yaml")
    assert "some.yaml" in str(caught.value)


def test_written_flags_say_what_the_configuration_says() -> None:
    """Every kind of field: texts, maps, thresholds, reserved memory, gates."""
    tree = {
        "topologyManagerPolicy": "single-numa-node",
        "cpuManagerPolicy": "static",
        "cpuManagerReconcilePeriod": "5s",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "reservedSystemCPUs": "0-1,8",
        "kubeReserved": {"cpu": "500m", "memory": "500Mi"},
        "evictionHard": {"memory.available": "100Mi"},
        "reservedMemory": [
            {"numaNode": 0, "limits": {"memory": "600Mi"}},
            {"numaNode": 1, "limits": {"memory": "1Gi", "hugepages-1Gi": "2Gi"}},
        ],
        "featureGates": {"A": True, "B": False},
    }
    text = f'KUBELET_EXTRA_ARGS="{" ".join(write_flags(tree))}"'

    assert merged([read_source(text, "f")]) == configuration([tree], read_flags([]))
