"""Which pods hold something for themselves, by their spec."""

from __future__ import annotations

import pytest
from tests.kubelet.build import container, guaranteed, pod

from numakube.api.codec import ResourceList
from numakube.api.pod import Container, Pod
from numakube.topology.fingerprint import has_exclusive_resources

GPU = "vendor.example/gpu"
WHOLE: ResourceList = {"cpu": "2", "memory": "1Gi"}


def burstable(**requests: str) -> Pod:
    """A pod that is not guaranteed because one container asks for nothing."""
    return pod(container("c", **requests), container("other"))


@pytest.mark.parametrize(
    ("made", "listed", "expected"),
    [
        (pod(guaranteed("c", "2")), (), True),
        # Memory makes a guaranteed pod exclusive even if its CPUs are shared.
        (pod(guaranteed("c", "500m")), (), True),
        (burstable(cpu="2", memory="1Gi"), (), False),
        (burstable(cpu="2", gpu="1"), (GPU,), True),
        (burstable(cpu="2", gpu="1"), ("vendor.example/nic",), False),
        # The plugin does not look at how many devices are asked for.
        (burstable(gpu="0"), (GPU,), True),
        (pod(container("c")), (GPU,), False),
        # Resources of the whole pod make it guaranteed; what counts is those of its containers.
        (pod(container("c", memory="0", huge="0"), level=WHOLE), (), False),
        (pod(container("c", cpu="0", memory="1"), level=WHOLE), (), True),
        (pod(container("c", cpu="0"), level=WHOLE), (), False),
        (pod(container("c", cpu="1500m"), level=WHOLE), (), False),
        (pod(container("c", cpu="1"), level=WHOLE), (), True),
    ],
)
def test_exclusive_is_what_the_plugin_calls_so(
    made: Pod, listed: tuple[str, ...], expected: bool
) -> None:
    """Devices count if the node's zones have them, the rest for guaranteed pods only."""
    assert has_exclusive_resources(made, listed) is expected


@pytest.mark.parametrize(("restart", "expected"), [(None, False), ("Always", True)])
def test_plain_init_containers_do_not_count_but_sidecars_do(
    restart: str | None, expected: bool
) -> None:
    """The kubelet does not list what an init container held."""
    init: Container = container("i", gpu="1", **({"restart": restart} if restart else {}))
    assert has_exclusive_resources(pod(container("c"), init=(init,)), (GPU,)) is expected
