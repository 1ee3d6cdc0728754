"""The messages of ttrpc and NRI, as far as we need them; what else is in them is passed over.

Enumerations are plain numbers here, which is the same on the wire.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.node.protos import build

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.node.protos import Fields

_TTRPC: Final[Mapping[str, Fields]] = MappingProxyType(
    {
        "Request": {
            "service": (1, "string"),
            "method": (2, "string"),
            "payload": (3, "bytes"),
            "timeout_nano": (4, "int64"),
        },
        "Response": {"status": (1, "Status"), "payload": (2, "bytes")},
        "Status": {"code": (1, "int32"), "message": (2, "string")},
    }
)

_NRI: Final[Mapping[str, Fields]] = MappingProxyType(
    {
        "Empty": {},
        "RegisterPluginRequest": {"plugin_name": (1, "string"), "plugin_idx": (2, "string")},
        "ConfigureRequest": {
            "config": (1, "string"),
            "runtime_name": (2, "string"),
            "runtime_version": (3, "string"),
            "registration_timeout": (4, "int64"),
            "request_timeout": (5, "int64"),
        },
        "ConfigureResponse": {"events": (2, "int32")},
        "SynchronizeRequest": {
            "pods": (1, "[PodSandbox]"),
            "containers": (2, "[Container]"),
            "more": (3, "bool"),
        },
        "SynchronizeResponse": {"update": (1, "[ContainerUpdate]"), "more": (2, "bool")},
        # What the runtime says of containers: asks about one that is made, changed or stopped, and
        # tells of what has happened, formerly with the number of the event.
        "ContainerRequest": {"pod": (1, "PodSandbox"), "container": (2, "Container")},
        "UpdateContainerRequest": {
            "pod": (1, "PodSandbox"),
            "container": (2, "Container"),
            "linux_resources": (3, "LinuxResources"),
        },
        "StateChangeEvent": {
            "event": (1, "int32"),
            "pod": (2, "PodSandbox"),
            "container": (3, "Container"),
        },
        # Every answer may carry updates of other containers. The call by which a plugin updates
        # containers without being asked is left out on purpose: see `nri_plugin`.
        "CreateContainerResponse": {
            "adjust": (1, "ContainerAdjustment"),
            "update": (2, "[ContainerUpdate]"),
        },
        "UpdatesResponse": {"update": (1, "[ContainerUpdate]")},
        "PodSandbox": {
            "id": (1, "string"),
            "name": (2, "string"),
            "uid": (3, "string"),
            "namespace": (4, "string"),
            "labels": (5, "{string}"),
            "annotations": (6, "{string}"),
        },
        "Container": {
            "id": (1, "string"),
            "pod_sandbox_id": (2, "string"),
            "name": (3, "string"),
            "state": (4, "int32"),
            "env": (8, "[string]"),
            "linux": (11, "LinuxContainer"),
        },
        "LinuxContainer": {"resources": (3, "LinuxResources")},
        "ContainerAdjustment": {
            "env": (4, "[KeyValue]"),
            "linux": (6, "LinuxContainerAdjustment"),
        },
        "KeyValue": {"key": (1, "string"), "value": (2, "string")},
        "LinuxContainerAdjustment": {"resources": (2, "LinuxResources")},
        "ContainerUpdate": {
            "container_id": (1, "string"),
            "linux": (2, "LinuxContainerUpdate"),
            "ignore_failure": (3, "bool"),
        },
        "LinuxContainerUpdate": {"resources": (1, "LinuxResources")},
        "LinuxResources": {"cpu": (2, "LinuxCPU")},
        "LinuxCPU": {
            "quota": (2, "OptionalInt64"),
            "period": (3, "OptionalUInt64"),
            "cpus": (6, "string"),
            "mems": (7, "string"),
        },
        "OptionalInt64": {"value": (1, "int64")},
        "OptionalUInt64": {"value": (1, "uint64")},
    }
)

TTRPC: Final = build("ttrpc", "ttrpc.proto", _TTRPC)
"""What is in ttrpc's frames."""

NRI: Final = build("nri.pkg.api.v1alpha1", "nri_v1alpha1.proto", _NRI)
"""What calls are about."""
