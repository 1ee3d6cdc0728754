"""Reading and writing documents: nulls, unknown fields, and errors that name the field."""

from functools import partial
from typing import Any

import pytest

from numakube.api.codec import (
    convert,
    decode,
    decode_tree,
    encode,
    to_tree,
)
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodSpec
from numakube.api.yaml_text import dump_yaml, load_yaml
from numakube.errors import MalformedObject


def refusal(body: bytes | dict[str, Any], subject: str | None = None) -> MalformedObject:
    """Return the error that *body* is refused with as a pod."""
    with pytest.raises(MalformedObject) as refused:
        decode(Pod, body, subject) if isinstance(body, bytes) else convert(Pod, body, subject)
    return refused.value


def test_unknown_fields_are_ignored() -> None:
    """A newer API server may say more than we know."""
    pod = decode(Pod, b'{"metadata": {"name": "web", "managedFields": [{}]}, "new": 1}')

    assert pod.metadata.name == "web"


def test_null_leaves_the_default() -> None:
    """Go writes null for empty lists, maps and times."""
    body = b"""{"metadata": {"name": "web", "creationTimestamp": null, "labels": null},
                "spec": {"containers": null, "overhead": null}, "status": null}"""

    assert decode(Pod, body) == Pod(metadata=ObjectMeta(name="web"))


@pytest.mark.parametrize(
    ("spec", "path", "detail"),
    [
        (
            {"containers": [{"name": 1}]},
            "spec.containers[0].name",
            "expected a string, got an integer",
        ),
        ({"containers": [{"name": "c"}, {}]}, "spec.containers[1].name", "is required"),
        ({"containers": {}}, "spec.containers", "expected a list, got an object"),
        ({"priority": "high"}, "spec.priority", "expected an integer, got a string"),
        ({"hostNetwork": 1.5}, "spec.hostNetwork", "expected a boolean, got a number"),
        (
            {"overhead": {"cpu": "1", "memory": ["1Gi"]}},
            "spec.overhead[memory]",
            "expected an integer or a number or a string, got a list",
        ),
        (
            {"containers": [{"name": "c", "resources": {"requests": {"a/b": "1", "cpu": True}}}]},
            "spec.containers[0].resources.requests[cpu]",
            "expected an integer or a number or a string, got a boolean",
        ),
        (3, "spec", "expected an object, got an integer"),
    ],
)
def test_a_wrong_type_is_reported_with_object_and_field(spec: Any, path: str, detail: str) -> None:
    """In Kubernetes' notation, also inside maps."""
    error = refusal({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec})

    assert (error.subject, error.path, error.detail) == ("Pod shop/web", path, detail)
    assert str(error) == f"Pod shop/web: {path}: {detail}"


def test_json_and_trees_are_refused_alike() -> None:
    """The same words whichever way the object came."""
    assert refusal(b'{"spec": {"nodeName": 7}}').path == "spec.nodeName"
    assert str(refusal(b'{"spec": {"nodeName": 7}}')) == str(refusal({"spec": {"nodeName": 7}}))


def test_the_caller_may_name_the_subject() -> None:
    """A file, for example."""
    assert str(refusal(b"[]", "pods.json")) == "pods.json: expected an object, got a list"


@pytest.mark.parametrize("body", [b"{", b"", b"\xff", b"{'a': 1}"])
def test_what_is_not_json_is_refused(body: bytes) -> None:
    """With the reason of the parser."""
    assert "not JSON" in str(refusal(body, "answer"))


def test_defaults_are_left_out_but_kind_and_version_are_not() -> None:
    """Items of a list come without a kind; requests must have one."""
    pod = decode(Pod, b'{"metadata": {"name": "web"}}')

    assert encode(pod) == b'{"metadata":{"name":"web"},"apiVersion":"v1","kind":"Pod"}'
    assert to_tree(Pod()) == {"apiVersion": "v1", "kind": "Pod"}


def test_yaml_and_json_read_the_same() -> None:
    """Numbers as quantities included."""
    pod = Pod(
        metadata=ObjectMeta(name="web", labels={"app": "web"}),
        spec=PodSpec(containers=(Container(name="c", image="i"),), overhead={"cpu": 0.25}),
    )

    assert (
        convert(Pod, load_yaml(dump_yaml(to_tree(pod)), "pod")) == decode(Pod, encode(pod)) == pod
    )


def test_malformed_yaml_is_refused_with_its_line() -> None:
    """And fields of the wrong type with their path."""
    with pytest.raises(MalformedObject, match=r"pods\.yaml: line 2: not YAML"):
        load_yaml("metadata:\n  name: : :\n", "pods.yaml")
    with pytest.raises(MalformedObject, match=r"metadata\.labels\[v\]: expected a string"):
        convert(Pod, load_yaml("metadata: {labels: {v: 1}}", "pods.yaml"))


def test_a_wrong_type_before_the_end_of_broken_json_is_told_as_no_json() -> None:
    """The type is seen before the rest of the text is."""
    assert "not JSON" in str(refusal(b"0:", "answer"))


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"metadata": {"labels": ' + "[" * 300 + "]" * 300 + "}}",
        '{"metadata": 5, "x": ' + "[" * 900 + "]" * 900 + "}",
    ],
)
def test_nesting_has_a_limit(body: str) -> None:
    """Nothing that walks through a tree may reach the end of Python's stack."""
    for read in (partial(decode, Pod), partial(decode_tree, subject="Pod")):
        with pytest.raises(MalformedObject, match="Pod: lists and maps are nested deeper than 100"):
            read(body)
