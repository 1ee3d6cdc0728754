"""Requests are read once, however often their parts come."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.apps.extender.place import pod_document

from numakube.apps.extender.extender_messages import ExtenderArgs, Requests, read
from numakube.errors import MalformedObject

POD = {**pod_document("p"), "metadata": {"name": "p", "namespace": "default", "uid": "u"}}


def body(pod: Any = POD, **more: Any) -> bytes:
    """Return a request as kube-scheduler writes it."""
    return json.dumps({"Pod": pod, **more}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "request_body",
    [
        body(NodeNames=["a", "b"], Nodes=None),
        body(NodeNames=[]),
        body(NodeNames=None, Nodes={"metadata": {}, "items": [{"metadata": {"name": "a"}}]}),
        body(NodeNames=["a"], Unknown=7),
        body({**POD, "status": None}, NodeNames=["a"]),
        body(),
    ],
)
def test_a_request_reads_the_same_the_first_and_the_second_time(request_body: bytes) -> None:
    """And as it does without any memory."""
    requests, expected = Requests(), read(ExtenderArgs, request_body)
    assert requests.read(request_body) == expected
    assert requests.read(request_body) == expected


def test_parts_that_came_before_are_the_same_objects() -> None:
    """So that what was worked out for them is found again."""
    requests = Requests()
    first = requests.read(body(NodeNames=["a", "b"]))
    assert requests.read(body(NodeNames=["b"])).pod is first.pod
    assert requests.read(body({"spec": {}}, NodeNames=["a", "b"])).node_names is first.node_names
    requests.expect(("b", "c"))
    answered = requests.read(body(NodeNames=["b", "c"]))
    assert answered.node_names == ("b", "c")


def test_memory_is_bounded() -> None:
    """Neither many lists nor a huge one stay."""
    requests = Requests()
    first = requests.read(body(NodeNames=["a"]))
    for number in range(100):
        requests.read(body(NodeNames=[str(number)]))
    assert requests.read(body(NodeNames=["a"])).node_names is not first.node_names
    huge = body(NodeNames=["x" * (2 << 20)])
    assert requests.read(huge).node_names is not requests.read(huge).node_names


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (body({"spec": 7}), "Pod.spec"),
        (body(NodeNames=[1]), "NodeNames"),
        (body(NodeNames="n"), "NodeNames"),
        (b"[]", "object"),
        (b"{", "JSON"),
    ],
)
def test_an_error_names_the_field_in_the_whole(wrong: bytes, field: str) -> None:
    """Not in the part."""
    with pytest.raises(MalformedObject, match=field):
        Requests().read(wrong)
