"""Names of attributes and annotations on NodeResourceTopology objects, upstream's and ours.

Attributes say what the kubelet is configured with, under the name of its option in camel case. An
option of a policy is spelled ``topologyManagerOption`` or ``cpuManagerOption`` and its name in
camel case, as the plugin's documentation asks of producers. Our own data is below
``topology.numakube.dev/``.
"""

from __future__ import annotations

import re
from typing import Final

TOPOLOGY_POLICY: Final = "topologyManagerPolicy"
TOPOLOGY_SCOPE: Final = "topologyManagerScope"
MAX_NUMA_NODES: Final = "topologyManagerMaxNUMANodes"
TOPOLOGY_OPTION_PREFIX: Final = "topologyManagerOption"
CPU_POLICY: Final = "cpuManagerPolicy"
CPU_OPTION_PREFIX: Final = "cpuManagerOption"
MEMORY_POLICY: Final = "memoryManagerPolicy"

FINGERPRINT: Final = "nodeTopologyPodsFingerprint"
FINGERPRINT_METHOD: Final = "nodeTopologyPodsFingerprintMethod"
FINGERPRINT_ANNOTATION: Final = "topology.node.k8s.io/fingerprint"
"""The fingerprint as older producers write it: always of all pods."""

PLACEMENT_METADATA: Final = "topology.node.k8s.io/numaplacement-metadata"
PLACEMENT_VECTOR: Final = "topology.node.k8s.io/numaplacement-vector"

OUR_PREFIX: Final = "topology.numakube.dev/"
SWITCHES: Final = OUR_PREFIX + "switches"
"""Attribute of a zone: the devices below each PCIe root port."""
EXACT_ANNOTATION: Final = OUR_PREFIX + "exact"
"""The annotation that carries an `numakube.topology.exact_report.ExactReport`."""
INEXACT_ANNOTATION: Final = OUR_PREFIX + "inexact"
"""The annotation that says why there is no exact report, where there should be one."""
PCI_ANNOTATION: Final = OUR_PREFIX + "pci"
"""The annotation that says on which NUMA nodes PCI functions are, where DRA drivers run."""
SURPRISES_ANNOTATION: Final = OUR_PREFIX + "surprises-only"
"""The annotation of a report that is written only when something happens that was not foreseen."""
FORESEEN: Final = OUR_PREFIX + "foreseen"
"""The annotation of a pod that says what it was expected to hold when it was bound."""
EXPORTER: Final = OUR_PREFIX + "exporter"
"""Attribute: the pod in which the exporter runs that wrote the report, ``namespace/name``."""
STALE: Final = OUR_PREFIX + "stale"
"""Attribute: why the object must not be trusted any more, such as a kubelet that is away."""
STATE_TROUBLE: Final = OUR_PREFIX + "state-files"
"""Attribute: which of the kubelet's state files will keep it from starting again, and why."""
WILL_NOT_START: Final = "the kubelet will not start: "
"""How the value of `STALE` begins if state files are the likely reason."""
POLICY_UNKNOWN: Final = OUR_PREFIX + "policy-unknown"
"""Attribute: why the kubelet's policies are not known, which is not the same as `none`."""

RTE_UPDATE_ANNOTATION: Final = "k8stopoawareschedwg/rte-update"
NRI_POLICY: Final = "TopologyPolicy"
"""The attribute in which nri-plugins names its own policy, which is not the kubelet's."""
NUMATOPOLOGY_ANNOTATION: Final = "nodeinfo.volcano.sh/numatopology"
"""The mark of an NRT that `numakube.topology.volcano` made of a Numatopology."""


def option_attribute(prefix: str, option: str) -> str:
    """Return the attribute of a policy option: ``cpuManagerOptionFullPcpusOnly``."""
    return prefix + "".join(word.capitalize() for word in option.split("-"))


def option_of(prefix: str, attribute: str) -> str | None:
    """Return the option that *attribute* is of, ``full-pcpus-only``; ``None`` if it is of none."""
    if not attribute.startswith(prefix):
        return None
    words = re.findall("[A-Z][a-z0-9]*", attribute.removeprefix(prefix))
    return "-".join(words).lower() or None
