"""The kubelet's gRPC messages, built at import from tables, without generated code.

The kubelet's packages are called ``v1`` and ``v1beta1``, names that any other library in the
process may have registered too; a descriptor pool of our own cannot collide with them. The files
in ``packages/node/proto`` say the same, and a test compares the two.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

if TYPE_CHECKING:
    from collections.abc import Mapping

Fields: TypeAlias = "Mapping[str, tuple[int, str]]"
"""Field name to number and type; ``[T]`` repeats, ``T?`` is optional, ``{T}`` maps strings to T."""

_SCALARS: Final = MappingProxyType(
    {
        "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
        "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
        "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
        "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
        "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
        "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    }
)

_POD_RESOURCES: Final[Mapping[str, Fields]] = MappingProxyType(
    {
        "AllocatableResourcesRequest": {},
        "AllocatableResourcesResponse": {
            "devices": (1, "[ContainerDevices]"),
            "cpu_ids": (2, "[int64]"),
            "memory": (3, "[ContainerMemory]"),
        },
        "ListPodResourcesRequest": {},
        "ListPodResourcesResponse": {"pod_resources": (1, "[PodResources]")},
        "PodResources": {
            "name": (1, "string"),
            "namespace": (2, "string"),
            "containers": (3, "[ContainerResources]"),
            "cpu_ids": (4, "[int64]"),
            "memory": (5, "[ContainerMemory]"),
        },
        "ContainerResources": {
            "name": (1, "string"),
            "devices": (2, "[ContainerDevices]"),
            "cpu_ids": (3, "[int64]"),
            "memory": (4, "[ContainerMemory]"),
            "dynamic_resources": (5, "[DynamicResource]"),
        },
        "ContainerMemory": {
            "memory_type": (1, "string"),
            "size": (2, "uint64"),
            "topology": (3, "TopologyInfo"),
        },
        "ContainerDevices": {
            "resource_name": (1, "string"),
            "device_ids": (2, "[string]"),
            "topology": (3, "TopologyInfo"),
        },
        "TopologyInfo": {"nodes": (1, "[NUMANode]")},
        "NUMANode": {"ID": (1, "int64")},
        "DynamicResource": {
            "claim_name": (2, "string"),
            "claim_namespace": (3, "string"),
            "claim_resources": (4, "[ClaimResource]"),
        },
        "ClaimResource": {
            "cdi_devices": (1, "[CDIDevice]"),
            "driver_name": (2, "string"),
            "pool_name": (3, "string"),
            "device_name": (4, "string"),
            "share_id": (5, "string?"),
        },
        "CDIDevice": {"name": (1, "string")},
        "GetPodResourcesRequest": {"pod_name": (1, "string"), "pod_namespace": (2, "string")},
        "GetPodResourcesResponse": {"pod_resources": (1, "PodResources")},
    }
)

_DEVICE_PLUGIN: Final[Mapping[str, Fields]] = MappingProxyType(
    {
        "DevicePluginOptions": {
            "pre_start_required": (1, "bool"),
            "get_preferred_allocation_available": (2, "bool"),
        },
        "RegisterRequest": {
            "version": (1, "string"),
            "endpoint": (2, "string"),
            "resource_name": (3, "string"),
            "options": (4, "DevicePluginOptions"),
        },
        "Empty": {},
        "ListAndWatchResponse": {"devices": (1, "[Device]")},
        "TopologyInfo": {"nodes": (1, "[NUMANode]")},
        "NUMANode": {"ID": (1, "int64")},
        "Device": {"ID": (1, "string"), "health": (2, "string"), "topology": (3, "TopologyInfo")},
        "PreStartContainerRequest": {"devices_ids": (1, "[string]")},
        "PreStartContainerResponse": {},
        "PreferredAllocationRequest": {
            "container_requests": (1, "[ContainerPreferredAllocationRequest]")
        },
        "ContainerPreferredAllocationRequest": {
            "available_deviceIDs": (1, "[string]"),
            "must_include_deviceIDs": (2, "[string]"),
            "allocation_size": (3, "int32"),
        },
        "PreferredAllocationResponse": {
            "container_responses": (1, "[ContainerPreferredAllocationResponse]")
        },
        "ContainerPreferredAllocationResponse": {"deviceIDs": (1, "[string]")},
        "AllocateRequest": {"container_requests": (1, "[ContainerAllocateRequest]")},
        "ContainerAllocateRequest": {"devices_ids": (1, "[string]")},
        "CDIDevice": {"name": (1, "string")},
        "AllocateResponse": {"container_responses": (1, "[ContainerAllocateResponse]")},
        "ContainerAllocateResponse": {
            "envs": (1, "{string}"),
            "mounts": (2, "[Mount]"),
            "devices": (3, "[DeviceSpec]"),
            "annotations": (4, "{string}"),
            "cdi_devices": (5, "[CDIDevice]"),
        },
        "Mount": {
            "container_path": (1, "string"),
            "host_path": (2, "string"),
            "read_only": (3, "bool"),
        },
        "DeviceSpec": {
            "container_path": (1, "string"),
            "host_path": (2, "string"),
            "permissions": (3, "string"),
        },
    }
)

_PLUGIN_REGISTRATION: Final[Mapping[str, Fields]] = MappingProxyType(
    {
        "PluginInfo": {
            "type": (1, "string"),
            "name": (2, "string"),
            "endpoint": (3, "string"),
            "supported_versions": (4, "[string]"),
        },
        "RegistrationStatus": {"plugin_registered": (1, "bool"), "error": (2, "string")},
        "RegistrationStatusResponse": {},
        "InfoRequest": {},
    }
)


class Messages:
    """The message classes of one protocol, as attributes."""

    def __init__(self, file: descriptor_pb2.FileDescriptorProto) -> None:
        self.file = file
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        for message in file.message_type:
            descriptor = pool.FindMessageTypeByName(f"{file.package}.{message.name}")
            setattr(self, message.name, message_factory.GetMessageClass(descriptor))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # noqa: ANN401 - generated classes


def build(package: str, file_name: str, messages: Mapping[str, Fields]) -> Messages:
    """Return the messages of a package, from a table of their fields."""
    file = descriptor_pb2.FileDescriptorProto(name=file_name, package=package, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add_field(message, field, number, kind, package)
    return Messages(file)


def _add_field(
    message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str, package: str
) -> None:
    field = message.field.add(name=name, number=number, label=1)
    if kind.startswith("["):
        field.label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    if kind.startswith("{"):
        field.label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
        kind = _add_map_entry(message, name, kind[1:-1], package)
    if kind.endswith("?"):
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    _set_type(field, kind.strip("[]?"), package)


def _add_map_entry(
    message: descriptor_pb2.DescriptorProto, name: str, value: str, package: str
) -> str:
    """Declare the entry type of a map field, as protoc does; return its name."""
    entry = message.nested_type.add(name="".join(map(str.title, name.split("_"))) + "Entry")
    entry.options.map_entry = True
    _set_type(entry.field.add(name="key", number=1, label=1), "string", package)
    _set_type(entry.field.add(name="value", number=2, label=1), value, package)
    return f"{message.name}.{entry.name}"


def _set_type(field: descriptor_pb2.FieldDescriptorProto, kind: str, package: str) -> None:
    scalar = _SCALARS.get(kind)
    if scalar is not None:
        field.type = scalar
    else:
        field.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"


POD_RESOURCES: Final = build("v1", "podresources_v1.proto", _POD_RESOURCES)
"""Messages of PodResources v1."""

DEVICE_PLUGIN: Final = build("v1beta1", "deviceplugin_v1beta1.proto", _DEVICE_PLUGIN)
"""Messages of the device plugin API v1beta1."""

PLUGIN_REGISTRATION: Final = build(
    "pluginregistration", "pluginregistration_v1.proto", _PLUGIN_REGISTRATION
)
"""Messages by which a kubelet takes up plugins whose sockets it finds."""
