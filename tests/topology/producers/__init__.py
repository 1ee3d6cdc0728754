"""Objects as each producer writes them, of one machine and one pod.

The machine has 2 sockets, 2 NUMA nodes on each, 4 CPUs and 8Gi of memory on each of those. The
kubelet keeps CPU 0 for itself; the pod default/trainer holds CPUs 4 and 5 and 4Gi of NUMA node 1.
"""

from pathlib import Path
from typing import Any

from numakube.api.codec import convert
from numakube.api.nrt import NodeResourceTopology, convert_nrt
from numakube.api.volcano_numatopology import KIND, Numatopology
from numakube.api.yaml_text import load_yaml
from numakube.topology.volcano import as_nrt

_FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in _FOLDER.glob("*.yaml"))
"""All producers."""


def document(name: str) -> dict[str, Any]:
    """Return an object as it is served."""
    found = load_yaml((_FOLDER / f"{name}.yaml").read_text(), name)
    assert isinstance(found, dict)
    return found


def golden(name: str) -> NodeResourceTopology:
    """Return an object as every reader sees it."""
    tree = document(name)
    if tree["kind"] == KIND:
        return as_nrt(convert(Numatopology, tree))
    return convert_nrt(tree)
