"""The messages built from tables are those of the .proto files."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from numakube.node.dra_plugin import MESSAGES as DRA
from numakube.node.nri.nri_messages import NRI, TTRPC
from numakube.node.protos import (
    DEVICE_PLUGIN,
    PLUGIN_REGISTRATION,
    POD_RESOURCES,
    Messages,
)

PROTO = Path(__file__).parents[1] / "proto"


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        ("podresources_v1", POD_RESOURCES),
        ("deviceplugin_v1beta1", DEVICE_PLUGIN),
        ("pluginregistration_v1", PLUGIN_REGISTRATION),
        ("dra_v1", DRA),
        ("ttrpc", TTRPC),
        ("nri_v1alpha1", NRI),
    ],
)
def test_the_tables_say_what_the_proto_files_say(
    name: str, messages: Messages, tmp_path: Path
) -> None:
    """Every message has the same fields, numbers, types and labels."""
    output = tmp_path / "set.pb"
    arguments = ["protoc", f"-I{PROTO}", f"--descriptor_set_out={output}", f"{name}.proto"]
    assert protoc.main(arguments) == 0
    compiled = descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file[0]
    assert described(messages.file) == described(compiled)


def described(file: descriptor_pb2.FileDescriptorProto) -> dict[str, object]:
    """Return what matters on the wire."""
    return {
        message.name: (
            {
                (field.name, field.number, field.type, field.label, field.type_name)
                for field in message.field
            },
            {nested.name for nested in message.nested_type},
        )
        for message in file.message_type
    }


def test_a_message_survives_the_wire() -> None:
    """Maps, optional fields and nested messages included."""
    response = DEVICE_PLUGIN.ContainerAllocateResponse(
        envs={"GPU": "0"},
        mounts=[DEVICE_PLUGIN.Mount(container_path="/a", host_path="/b", read_only=True)],
    )
    again = DEVICE_PLUGIN.ContainerAllocateResponse.FromString(response.SerializeToString())
    assert dict(again.envs) == {"GPU": "0"}
    assert again.mounts[0].host_path == "/b"
    claim = POD_RESOURCES.ClaimResource(driver_name="d")
    assert not claim.HasField("share_id")
