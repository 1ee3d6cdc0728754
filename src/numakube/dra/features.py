"""Which features of dynamic resource allocation are on, by gate and by version of Kubernetes.

Defaults up to 1.37 are those of its code. From 1.38 on, features that are beta there by the
milestones of their KEPs are on. That is right whatever the defaults of 1.38 become: each of them
acts on fields of slices and claims, and an API server whose gate is off does not store the field.
With the gate on at the server and off here, a field would be there and be ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Mapping

LATEST: Final = 37
"""The minor version of Kubernetes whose defaults `Features` has."""


@dataclass(frozen=True, slots=True)
class Features:
    """Feature gates at the defaults of Kubernetes 1.37, named as the gates without ``DRA``."""

    admin_access: bool = True
    consumable_capacity: bool = True
    device_binding_conditions: bool = True
    device_taints: bool = True
    device_taint_rules: bool = True
    extended_resource: bool = True
    partitionable_devices: bool = True
    prioritized_list: bool = True
    resource_claim_device_status: bool = True
    scheduler_filter_timeout: bool = True
    derived_attributes: bool = False
    device_compatibility_groups: bool = False
    fractional_capacity_range: bool = False
    list_type_attributes: bool = False
    node_allocatable_resources: bool = False
    optional_node_operations: bool = False

    @property
    def binding_conditions(self) -> bool:
        """Whether devices may have conditions for binding, which needs two gates."""
        return self.device_binding_conditions and self.resource_claim_device_status

    @property
    def stable(self) -> bool:
        """Whether kube-scheduler 1.36 or 1.37 takes its oldest allocator for these features.

        That one does not sort pools and slices and does not know ``distinctAttribute``.
        """
        return not (self.binding_conditions or self.consumable_capacity or self.experimental)

    @property
    def experimental(self) -> bool:
        """Whether an alpha feature is on, which takes the newest allocator."""
        return (
            self.list_type_attributes
            or self.derived_attributes
            or self.device_compatibility_groups
            or self.optional_node_operations
        )


def _gate_name(field: str) -> str:
    return "DRA" + "".join(part.capitalize() for part in field.split("_"))


_FIELDS: Final = {_gate_name(field.name): field.name for field in fields(Features)}
_IGNORED: Final = frozenset(
    {"DynamicResourceAllocation", "DRAWorkloadResourceClaims", "GenericWorkload"}
)
_ON_FROM: Final = {
    "admin_access": 34,
    "prioritized_list": 34,
    "resource_claim_device_status": 33,
    "scheduler_filter_timeout": 34,
    "consumable_capacity": 36,
    "partitionable_devices": 36,
    "device_taints": 36,
    "device_taint_rules": 37,
    "device_binding_conditions": 36,
    "extended_resource": 36,
    "derived_attributes": 38,
    "device_compatibility_groups": 38,
    "fractional_capacity_range": 38,
    "node_allocatable_resources": 38,
    "optional_node_operations": 38,
}
"""The minor version from which on a feature is on by default."""
_UNSUPPORTED: Final = {
    "DRASharedConsumableCapacity": "pools of devices that need it (KEP-5941) are not used",
}
"""Gates of features that we do not have, and what that means."""


def features_of(gates: Mapping[str, bool] | None = None, *, minor: int = LATEST) -> Features:
    """Return the features of Kubernetes 1.*minor* with some *gates* set otherwise.

    Raises:
        InvalidValue: there is no such gate, or the feature is not there.
    """
    chosen = {name: minor >= since for name, since in _ON_FROM.items()}
    for gate, on in (gates or {}).items():
        if gate in _FIELDS:
            chosen[_FIELDS[gate]] = on
        elif gate in _UNSUPPORTED:
            if on:
                raise InvalidValue(
                    f"feature gate {gate} is not supported: {_UNSUPPORTED[gate]}; leave it out"
                )
        elif gate not in _IGNORED:
            raise InvalidValue(f"feature gate {gate!r} is not one of dynamic resource allocation")
    return Features(**chosen)
