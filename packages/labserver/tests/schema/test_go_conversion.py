"""Conversion into Go types, as strategic merge patches go through it."""

from __future__ import annotations

from typing import Any

import pytest

from kube_lab_server.kind_names import GVK, Problems
from kube_lab_server.schema.builtin_types import BUILTIN
from kube_lab_server.schema.go_decoding import check_converted

_POD = BUILTIN[GVK("", "v1", "Pod")].root
_SECRET = BUILTIN[GVK("", "v1", "Secret")].root


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"hostNetwork": "yes"}, "unrecognized type: bool"),
        ({"priority": "high"}, "unrecognized type: int32"),
        ({"priority": 1.5}, "cannot convert float64 to int32"),
        ({"nodeName": 1}, "cannot convert int64 to string"),
        ({"restartPolicy": 1}, "cannot convert int64 to v1.RestartPolicy"),
        ({"nodeName": True}, "unrecognized type: string"),
        ({"containers": {}}, "cannot restore slice from map"),
        ({"nodeSelector": []}, "cannot restore map from slice"),
        ({"affinity": "x"}, "cannot restore struct from: string"),
        (
            {"overhead": {"cpu": "x"}},
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"containers": [{"livenessProbe": {"tcpSocket": {"port": True}}}]},
            "json: cannot unmarshal bool into Go value of type int32",
        ),
        ({"priority": "x", "hostNetwork": "x"}, "unrecognized type: bool"),
    ],
)
def test_a_value_that_does_not_fit_is_named_in_the_converter_s_words(
    spec: dict[str, Any], message: str
) -> None:
    """The first one in the order of the type."""
    assert check_converted({"spec": spec}, _POD, strict=True) == Problems(fatal=message)


def test_bytes_are_read_from_base64() -> None:
    """Nothing else."""
    problems = check_converted({"data": {"a": "!"}}, _SECRET, strict=True)
    assert problems.fatal == "error decoding from json: illegal base64 data at input byte 0"
    assert check_converted({"data": {"a": 1}}, _SECRET, strict=True).fatal == (
        "cannot restore slice from int64"
    )


def test_whole_floats_and_nulls_fit() -> None:
    """As they lose nothing."""
    spec = {"priority": 1.0, "hostNetwork": None, "containers": [{"name": "c"}]}
    assert check_converted({"spec": spec}, _POD, strict=True) == Problems()


def test_unknown_fields_are_listed_by_name() -> None:
    """Not in the order of the document."""
    document = {"zz": 1, "spec": {"bogus": 1, "containers": [{"foo": "bar"}]}}
    assert check_converted(document, _POD, strict=True).strict == (
        'unknown field "spec.bogus"',
        'unknown field "spec.containers[0].foo"',
        'unknown field "zz"',
    )
    assert check_converted(document, _POD, strict=False) == Problems()
