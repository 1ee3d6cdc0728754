"""The protobuf form: what kubectl sends in it, and what our own writing of it reads back to."""

from __future__ import annotations

import base64
import json
import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_lab_server import GVK
from kube_lab_server.schema.builtin_types import BUILTIN
from kube_lab_server.schema.protobuf import MalformedProtobuf, read_protobuf
from kube_lab_server.schema.types import (
    ListType,
    MapType,
    Scalar,
    ScalarKind,
    Struct,
    Type,
    Union,
    Untyped,
)


def _canonical(document: dict[str, Any]) -> dict[str, Any]:
    found = BUILTIN[GVK.of(document)].canonical(document)
    return {k: v for k, v in found.items() if k not in ("apiVersion", "kind")}


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        (
            "Namespace",
            "azhzAAoPCgJ2MRIJTmFtZXNwYWNlEhwKFAoEZGVtbxIAGgAiACoAMgA4AEIAEgAaAgoAGgAiAA==",
            {"metadata": {"name": "demo"}, "spec": {}, "status": {}},
        ),
        (
            "Deployment",
            "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErIBCh8KAWQSABoEZGVtbyIAKgAyADgAQgBaCAoDYXBw"
            "EgFkEoABCAMSCgoICgNhcHASAWQaaAoaCgASABoAIgAqADIAOABCAFoICgNhcHASAWQSShIsCgNpbWcS"
            "BWltZzoxKgAyCgoAEAAYUCIAKgBCAGoAcgCAAQCIAQCQAQCiAQAaADIAQgBKAFIAWABgAGgAggEAigEA"
            "mgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4ABoAIgA=",
            {
                "metadata": {"name": "d", "namespace": "demo", "labels": {"app": "d"}},
                "spec": {
                    "replicas": 3,
                    "selector": {"matchLabels": {"app": "d"}},
                    "strategy": {},
                    "template": {
                        "metadata": {"labels": {"app": "d"}},
                        "spec": {
                            "containers": [
                                {
                                    "name": "img",
                                    "image": "img:1",
                                    "ports": [{"containerPort": 80}],
                                    "resources": {},
                                }
                            ]
                        },
                    },
                },
                "status": {},
            },
        ),
        (
            "Secret",
            "azhzAAoMCgJ2MRIGU2VjcmV0EiEKFQoBcxIAGgRkZW1vIgAqADIAOABCABIGCgFwEgF4GgAaACIA",
            {
                "metadata": {"name": "s", "namespace": "demo"},
                "data": {"p": "eA=="},
            },
        ),
        (
            "PodDisruptionBudget",
            "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSPAoVCgFwEgAaBGRlbW8iACoAMgA4"
            "AEIAEhcKCQgBEAAaAzUwJRIKCggKA2FwcBIBZBoKCAAYACAAKAAwABoAIgA=",
            {
                "metadata": {"name": "p", "namespace": "demo"},
                "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "d"}}},
                "status": {
                    "currentHealthy": 0,
                    "desiredHealthy": 0,
                    "disruptionsAllowed": 0,
                    "expectedPods": 0,
                },
            },
        ),
        (
            "ResourceQuota",
            "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRI4ChUKAXESABoEZGVtbyIAKgAyADgAQgASHQoKCgNjcHUS"
            "AwoBMQoPCgZtZW1vcnkSBQoDMkdpGgAaACIA",
            {
                "metadata": {"name": "q", "namespace": "demo"},
                "spec": {"hard": {"cpu": "1", "memory": "2Gi"}},
                "status": {},
            },
        ),
    ],
)
def test_what_kubectl_sends_is_understood(kind: str, data: str, expected: dict[str, Any]) -> None:
    """Written by ``kubectl create``."""
    document = read_protobuf(base64.b64decode(data))
    assert document["kind"] == kind
    assert _canonical(document) == expected


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _sized(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _write_struct(root: Struct, value: dict[str, Any]) -> bytes:
    """Write a message; fields of embedded structs each get an outer message of their own."""
    out = b""
    for name, item in value.items():
        field = root.fields[name]
        if not field.number or item is None:
            continue
        data = _write_field(field.type, field.number[-1], item)
        for number in reversed(field.number[:-1]):
            data = _sized(number, data)
        out += data
    return out


def _write_field(kind: Type, number: int, value: Any) -> bytes:
    match kind:
        case ListType():
            return b"".join(_write(kind.element, number, item) for item in value)
        case MapType():
            return b"".join(
                _sized(number, _sized(1, key.encode()) + _write(kind.element, 2, item))
                for key, item in value.items()
            )
        case _:
            return _write(kind, number, value)


def _write(kind: Type, number: int, value: Any) -> bytes:
    match kind:
        case Struct():
            return _sized(number, _write_struct(kind, value))
        case Scalar():
            return _write_scalar(kind.kind, number, value)
        case ListType():
            return _sized(number, _write_field(kind, 1, value))
        case Untyped():
            return _sized(number, _sized(1, json.dumps(value).encode()))
        case MapType():
            raise NotImplementedError
        case Union():
            return _sized(number, _write_union(kind, value))


def _write_union(kind: Union, value: Any) -> bytes:
    is_bool = isinstance(kind.other, Scalar)
    if isinstance(value, dict):
        return _write(kind.struct, 2 if is_bool else 1, value)
    return _write(kind.other, 1, value) if is_bool else _write_field(kind.other, 2, value)


def _write_scalar(kind: ScalarKind, number: int, value: Any) -> bytes:
    match kind:
        case ScalarKind.BOOLEAN | ScalarKind.INT32 | ScalarKind.INT64:
            return _varint(number << 3) + _varint(int(value))
        case ScalarKind.FLOAT | ScalarKind.NUMBER:
            return _varint(number << 3 | 1) + struct.pack("<d", value)
        case ScalarKind.STRING:
            return _sized(number, value.encode())
        case ScalarKind.BYTES:
            return _sized(number, base64.b64decode(value))
        case ScalarKind.QUANTITY:
            return _sized(number, _sized(1, value.encode()))
        case ScalarKind.INT_OR_STRING:
            integer = isinstance(value, int)
            chosen = b"" if integer else _varint(1 << 3) + _varint(1)
            rest = _varint(2 << 3) + _varint(value) if integer else _sized(3, value.encode())
            return _sized(number, chosen + rest)
        case ScalarKind.TIME | ScalarKind.MICRO_TIME:
            moment = datetime.fromisoformat(value).astimezone(UTC)
            seconds = _varint(1 << 3) + _varint(int(moment.timestamp() // 1))
            nanos = _varint(2 << 3) + _varint(moment.microsecond * 1000)
            return _sized(number, seconds + nanos)


def _envelope(gvk: GVK, document: dict[str, Any]) -> bytes:
    meta = _sized(1, gvk.api_version.encode()) + _sized(2, gvk.kind.encode())
    raw = _write_struct(BUILTIN[gvk].root, document)
    return b"k8s\x00" + _sized(1, meta) + _sized(2, raw)


_SAMPLES: dict[ScalarKind, st.SearchStrategy[Any]] = {
    ScalarKind.STRING: st.sampled_from(["a", "\u00e4", "x" * 200]),
    ScalarKind.BOOLEAN: st.just(True),
    ScalarKind.INT32: st.sampled_from([1, -1, 2**31 - 1, -(2**31)]),
    ScalarKind.INT64: st.sampled_from([1, -1, 2**63 - 1]),
    ScalarKind.FLOAT: st.sampled_from([1.5, -0.25]),
    ScalarKind.QUANTITY: st.sampled_from(["500m", "2Gi"]),
    ScalarKind.INT_OR_STRING: st.sampled_from([1, -1, "10%"]),
    ScalarKind.TIME: st.sampled_from(["2024-05-01T10:00:00Z", "1969-12-31T23:59:59Z"]),
    ScalarKind.MICRO_TIME: st.just("2024-05-01T10:00:00.123456Z"),
    ScalarKind.BYTES: st.sampled_from(["YQ==", "AAH/"]),
}


def _values(kind: Type, depth: int) -> st.SearchStrategy[Any]:
    match kind:
        case Scalar():
            return _SAMPLES[kind.kind]
        case Struct():
            return _objects(kind, depth)
        case ListType():
            return st.lists(_values(kind.element, depth), min_size=1, max_size=2)
        case MapType():
            return st.dictionaries(st.sampled_from("xy"), _values(kind.element, depth), min_size=1)
        case Union():
            return _objects(kind.struct, depth) | st.just(
                [] if isinstance(kind.other, ListType) else True
            )
        case Untyped():
            return st.just({"any": [1, {"thing": None}]})


def _objects(root: Struct, depth: int) -> st.SearchStrategy[Any]:
    names = sorted(name for name, field in root.fields.items() if field.number)
    if depth == 0 or not names:
        return st.just({})
    chosen = st.lists(st.sampled_from(names), max_size=4, unique=True)
    return chosen.flatmap(
        lambda picked: st.fixed_dictionaries(
            {name: _values(root.fields[name].type, depth - 1) for name in picked}
        )
    )


@given(st.data())
def test_what_was_written_is_read(data: st.DataObject) -> None:
    """For any object of any kind."""
    gvk = data.draw(st.sampled_from(sorted(BUILTIN)))
    document = data.draw(_objects(BUILTIN[gvk].root, 5))
    read = read_protobuf(_envelope(gvk, document))
    named = {**document, "apiVersion": gvk.api_version, "kind": gvk.kind}
    assert _canonical(read) == _canonical(named)


def test_numbers_may_stand_together() -> None:
    """Newer writers pack them."""
    gvk = GVK("", "v1", "Pod")
    context = _sized(4, _varint(5) + _varint(300))
    spec = _sized(2, _sized(14, context))
    meta = _sized(1, b"v1") + _sized(2, b"Pod")
    document = read_protobuf(b"k8s\x00" + _sized(1, meta) + _sized(2, spec))
    assert document["spec"]["securityContext"] == {"supplementalGroups": [5, 300]}
    assert BUILTIN[gvk].check(document, strict=True).fatal is None


def test_options_of_a_deletion_are_understood() -> None:
    """They are no resource, but are sent like one."""
    meta = _sized(1, b"v1") + _sized(2, b"DeleteOptions")
    raw = _varint(1 << 3) + _varint(0) + _sized(4, b"Foreground")
    document = read_protobuf(b"k8s\x00" + _sized(1, meta) + _sized(2, raw))
    assert document == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"k8s\x00\x0a",
        b"k8s\x00\x0a\x05abc",
        b"k8s\x00\x0b",
        b"k8s\x00" + b"\xff" * 11,
        b"k8s\x00" + _sized(1, _sized(1, b"v9") + _sized(2, b"Pod")),
        b"k8s\x00"
        + _sized(1, _sized(1, b"v1") + _sized(2, b"Pod"))
        + _sized(2, _varint(2 << 3) + b"\x01"),
        b"k8s\x00" + _sized(1, _sized(1, b"\xff") + _sized(2, b"Pod")),
    ],
)
def test_what_is_no_object_is_refused(data: bytes) -> None:
    """Never taken for an empty one."""
    with pytest.raises(MalformedProtobuf):
        read_protobuf(data)
