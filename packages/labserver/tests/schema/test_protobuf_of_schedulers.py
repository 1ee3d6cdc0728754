"""What a kube-scheduler of version 1.35 sends, byte by byte, and what is unusual in messages."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from kube_lab_server import GVK
from kube_lab_server.schema.builtin_types import BUILTIN
from kube_lab_server.schema.protobuf import (
    MalformedProtobuf,
    UnknownKind,
    has_protobuf_form,
    read_protobuf,
)

CONFIG_MAP = GVK("", "v1", "ConfigMap")
DEFINITION = GVK("apiextensions.k8s.io", "v1", "CustomResourceDefinition")

BINDING = (
    "azhzAAoNCgJ2MRIHQmluZGluZxJVCj0KAnAxEgAaB2RlZmF1bHQiACokZWFiNzk4MmUtODQ1My00Yjc4LWEyZGQt"
    "OGE1NjJlZDkzMmE5MgA4AEIAEhQKBE5vZGUSABoCbjEiACoAMgA6ABoAIgA="
)
SCHEDULED = (
    "azhzAAoZChBldmVudHMuazhzLmlvL3YxEgVFdmVudBL3AQoqChNwMS4xOGU4MzA1MTc1M2E0YWE2EgAaB2RlZmF1"
    "bHQiACoAMgA4AEIAEgwIqYvm1wYQqMjguAMiEWRlZmF1bHQtc2NoZWR1bGVyKhRkZWZhdWx0LXNjaGVkdWxlci12"
    "bTIHQmluZGluZzoJU2NoZWR1bGVkQkIKA1BvZBIHZGVmYXVsdBoCcDEiJGVhYjc5ODJlLTg0NTMtNGI3OC1hMmRk"
    "LThhNTYyZWQ5MzJhOSoCdjEyAjQ2OgBSJlN1Y2Nlc3NmdWxseSBhc3NpZ25lZCBkZWZhdWx0L3AxIHRvIG4xWgZO"
    "b3JtYWxiBAoAEgBqAHIAeAAaACIA"
)
LEASE = (
    "azhzAAofChZjb29yZGluYXRpb24uazhzLmlvL3YxEgVMZWFzZRJ2CikKDmt1YmUtc2NoZWR1bGVyEgAaC2t1YmUt"
    "c3lzdGVtIgAqADIAOABCABJJCid2bV9hOTE2MDVkNi0zYWMyLTRhMWEtOTExNy02NmU4Y2ZjZmVhMWYQBhoMCKGL"
    "5tcGEOicvuACIgwIoYvm1wYQ6Jy+4AIoABoAIgA="
)
BECAME_LEADER = (
    "azhzAAoLCgJ2MRIFRXZlbnQSuwIKOgofa3ViZS1zY2hlZHVsZXIuMThlODMwNGY4ZTFmODViMBIAGgtrdWJlLXN5"
    "c3RlbSIAKgAyADgAQgASaAoFTGVhc2USC2t1YmUtc3lzdGVtGg5rdWJlLXNjaGVkdWxlciIkM2YyNGU5ODYtMDY1"
    "NC00ZmIyLThiNTktYjgxNDAwZDUzNTc4KhZjb29yZGluYXRpb24uazhzLmlvL3YxMgIzNToAGg5MZWFkZXJFbGVj"
    "dGlvbiI1dm1fYTkxNjA1ZDYtM2FjMi00YTFhLTkxMTctNjZlOGNmY2ZlYTFmIGJlY2FtZSBsZWFkZXIqFQoRZGVm"
    "YXVsdC1zY2hlZHVsZXISADIICKGL5tcGEAA6CAihi+bXBhAAQAFKBk5vcm1hbFIAYgByEWRlZmF1bHQtc2NoZWR1"
    "bGVyegAaACIA"
)
DELETION = "azhzAAoTCgJ2MRINRGVsZXRlT3B0aW9ucxIAGgAiAA=="


def _read(text: str) -> dict[str, Any]:
    """The document in its canonical form, without what Go writes for empty structs."""
    document = read_protobuf(base64.b64decode(text))
    info = BUILTIN.get(GVK.of(document))
    return document if info is None else info.canonical(document)


def _sized(number: int, data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def _envelope(kind: GVK, raw: bytes) -> bytes:
    meta = _sized(1, kind.api_version.encode()) + _sized(2, kind.kind.encode())
    return b"k8s\x00" + _sized(1, meta) + _sized(2, raw)


def test_a_binding_is_understood() -> None:
    """It names the pod, its uid and the node."""
    assert _read(BINDING) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "p1",
            "namespace": "default",
            "uid": "eab7982e-8453-4b78-a2dd-8a562ed932a9",
        },
        "target": {"kind": "Node", "name": "n1"},
    }


def test_an_event_of_a_scheduling_decision_is_understood() -> None:
    """Its time has microseconds."""
    event = _read(SCHEDULED)
    assert event["eventTime"] == "2026-11-15T10:12:57.924329Z"
    assert event["note"] == "Successfully assigned default/p1 to n1"
    assert event["regarding"]["name"] == "p1"
    assert (event["action"], event["reason"], event["type"]) == ("Binding", "Scheduled", "Normal")


def test_a_lease_is_understood() -> None:
    """A number that is a pointer in Go is there even if zero."""
    assert _read(LEASE)["spec"] == {
        "holderIdentity": "vm_a91605d6-3ac2-4a1a-9117-66e8cfcfea1f",
        "leaseDurationSeconds": 6,
        "acquireTime": "2026-11-15T10:12:49.739217Z",
        "renewTime": "2026-11-15T10:12:49.739217Z",
        "leaseTransitions": 0,
    }


def test_an_event_of_the_core_group_is_understood() -> None:
    """The one that tells of the new leader."""
    event = _read(BECAME_LEADER)
    assert event["involvedObject"]["kind"] == "Lease"
    assert event["message"].endswith("became leader")
    assert (event["firstTimestamp"], event["count"]) == ("2026-11-15T10:12:49Z", 1)
    assert event["eventTime"] is None


def test_the_options_of_a_preemption_are_understood() -> None:
    """They say nothing but what they are."""
    assert _read(DELETION) == {"apiVersion": "v1", "kind": "DeleteOptions"}


def test_an_envelope_may_leave_the_kind_to_the_server() -> None:
    """Then it is what the resource is of."""
    body = b"k8s\x00" + _sized(2, _sized(1, _sized(1, b"named")))
    document = read_protobuf(body, assumed=CONFIG_MAP)
    assert document["kind"] == "ConfigMap"
    assert document["metadata"]["name"] == "named"


def test_unknown_fields_and_groups_are_skipped() -> None:
    """Newer clients may send them."""
    group = b"\x7b\x08\x03\x7b\x7c\x7c"
    raw = group + _sized(1, _sized(1, b"a")) + _sized(14, b"new") + b"\x70\x01"
    document = read_protobuf(_envelope(CONFIG_MAP, raw))
    assert document == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def test_text_that_is_no_utf8_is_shown_as_in_json() -> None:
    """Go keeps any bytes in a string."""
    entry = _sized(1, b"a") + _sized(2, b"\xff")
    assert read_protobuf(_envelope(CONFIG_MAP, _sized(2, entry)))["data"] == {"a": "\ufffd"}


def test_a_number_is_cut_to_its_size() -> None:
    """As the Go decoder does."""
    kind = GVK("apps", "v1", "Deployment")
    replicas = b"\x08\x83\x80\x80\x80\x10"
    assert read_protobuf(_envelope(kind, _sized(2, replicas)))["spec"] == {"replicas": 3}


def test_a_quantity_without_text_is_zero() -> None:
    """An empty message is Go's zero."""
    kind = GVK("", "v1", "ResourceQuota")
    entry = _sized(1, b"cpu") + _sized(2, b"")
    document = read_protobuf(_envelope(kind, _sized(2, _sized(1, entry))))
    assert document["spec"] == {"hard": {"cpu": "0"}}


def _schema(raw: bytes) -> bytes:
    version = _sized(4, _sized(1, raw))
    return _envelope(DEFINITION, _sized(2, _sized(7, version)))


def test_floating_point_numbers_are_understood() -> None:
    """Only schemas have them."""
    document = read_protobuf(_schema(b"\x49" + struct.pack("<d", 1.5)))
    assert document["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {"maximum": 1.5}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (_schema(b"\x4d1234"), "proto: wrong wireType"),
        (_envelope(CONFIG_MAP, b"\x08\x01"), "proto: wrong wireType"),
        (_envelope(CONFIG_MAP, b"\x0a\x7f"), "unexpected EOF"),
        (_envelope(CONFIG_MAP, b"\x7b\x08"), "unexpected EOF"),
        (_envelope(CONFIG_MAP, b"\x02\x00"), "proto: illegal tag 0 (wire type 2)"),
        (
            _envelope(GVK("apps", "v1", "ControllerRevision"), _sized(2, _sized(1, b"{"))),
            "unexpected end of JSON input",
        ),
    ],
)
def test_a_malformed_message_is_refused_by_its_kind(body: bytes, told: str) -> None:
    """The kind could be read, so the refusal can name it."""
    with pytest.raises(MalformedProtobuf) as refused:
        read_protobuf(body)
    assert str(refused.value) == told
    assert refused.value.kind is not None


def test_messages_in_messages_without_end_are_refused() -> None:
    """They must not bring the server down."""
    nested = b""
    for _ in range(3000):
        size = len(nested)
        nested = b"\xe2\x01" + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + nested
    raw = b""
    for tag in (b"\x0a", b"\x22", b"\x3a", b"\x12", b"\x12"):
        raw = raw or nested
        size = len(raw)
        raw = tag + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + raw
    meta = _sized(1, DEFINITION.api_version.encode()) + _sized(2, DEFINITION.kind.encode())
    with pytest.raises(MalformedProtobuf, match="nested too deeply"):
        read_protobuf(b"k8s\x00" + _sized(1, meta) + raw)


def test_a_kind_that_is_not_known_is_named() -> None:
    """The refusal says which one."""
    kind = GVK("example.com", "v1", "Widget")
    assert not has_protobuf_form(kind)
    with pytest.raises(UnknownKind, match='no kind "Widget" is registered') as refused:
        read_protobuf(_envelope(kind, b""))
    assert refused.value.kind == kind
