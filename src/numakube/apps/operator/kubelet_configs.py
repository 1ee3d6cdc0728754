"""What OpenShift's KubeletConfig objects say of a pool's kubelets.

Where exporters cannot read the kubelet's own file, its policy and scope reach them by a ConfigMap.
"""

from collections.abc import Iterable
from typing import Any, Final

from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.api.selectors import selector_of
from numakube.api.wire import Wire
from numakube.apps.operator.node_pools import Pool
from numakube.errors import InvalidValue

_FIELDS: Final = ("topologyManagerPolicy", "topologyManagerScope")


class KubeletConfigSpec(Wire, frozen=True):
    """Which pools it is for, and a KubeletConfiguration as it stands."""

    machine_config_pool_selector: LabelSelector | None = None
    kubelet_config: dict[str, Any] | None = None


class KubeletConfigObject(Wire, frozen=True):
    """An object of kind KubeletConfig."""

    metadata: ObjectMeta = ObjectMeta()
    spec: KubeletConfigSpec = KubeletConfigSpec()


def kubelet_settings(pool: Pool, configs: Iterable[KubeletConfigObject]) -> dict[str, str]:
    """Return policy and scope of the kubelets of *pool*, as far as an object tells them."""
    for config in configs:
        payload = config.spec.kubelet_config
        if payload and _is_for(config, pool):
            return {key: value for key in _FIELDS if isinstance(value := payload.get(key), str)}
    return {}


def _is_for(config: KubeletConfigObject, pool: Pool) -> bool:
    try:
        return selector_of(config.spec.machine_config_pool_selector).matches(pool.labels)
    except InvalidValue:
        return False
