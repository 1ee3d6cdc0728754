"""Decoding into Go types: what does not fit, what is unknown, what is written twice."""

from __future__ import annotations

from typing import Any

import pytest

from kube_lab_server.kind_names import GVK, Problems
from kube_lab_server.schema.builtin_types import BUILTIN
from kube_lab_server.schema.jsontext import parse_json


def _check(api_version: str, kind: str, document: dict[str, Any]) -> Problems:
    gvk = GVK.of({"apiVersion": api_version, "kind": kind})
    return BUILTIN[gvk].check(document, strict=True)


@pytest.mark.parametrize(
    ("api_version", "kind", "document", "message"),
    [
        (
            "v1",
            "Pod",
            {"spec": {"hostNetwork": "yes"}},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork "
            "of type bool",
        ),
        (
            "v1",
            "Pod",
            {"spec": {"containers": {}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers "
            "of type []v1.Container",
        ),
        (
            "v1",
            "Pod",
            {"spec": {"containers": [{"ports": [{"containerPort": "80"}]}]}},
            "json: cannot unmarshal string into Go struct field "
            "ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            "v1",
            "Pod",
            {"spec": {"restartPolicy": 1}},
            "json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy "
            "of type v1.RestartPolicy",
        ),
        (
            "v1",
            "Pod",
            {"spec": {"volumes": [{"hostPath": 1}]}},
            "json: cannot unmarshal number into Go struct field "
            "Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
        ),
        (
            "v1",
            "Pod",
            {"spec": []},
            "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec",
        ),
        (
            "v1",
            "ConfigMap",
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels "
            "of type string",
        ),
        (
            "v1",
            "ConfigMap",
            {"binaryData": {"a": "!"}},
            "illegal base64 data at input byte 0",
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {"spec": {"minAvailable": True}},
            "json: cannot unmarshal bool into Go struct field "
            "PodDisruptionBudgetSpec.spec.minAvailable of type int32",
        ),
        (
            "apps/v1",
            "Deployment",
            {"spec": {"replicas": 3000000000}},
            "json: cannot unmarshal number 3000000000 into Go struct field "
            "DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "coordination.k8s.io/v1",
            "Lease",
            {"spec": {"renewTime": "yesterday"}},
            'parsing time "yesterday" as "2006-01-02T15:04:05.000000Z07:00": '
            'cannot parse "yesterday" as "2006"',
        ),
        (
            "v1",
            "Node",
            {"status": {"capacity": {"cpu": ""}}},
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_named_as_go_names_it(
    api_version: str, kind: str, document: dict[str, Any], message: str
) -> None:
    """Struct, path and type are those of the Go sources."""
    assert _check(api_version, kind, document) == Problems(fatal=message)


def test_a_float_keeps_the_text_it_was_written_as() -> None:
    """So that the message can quote it."""
    problems = _check("apps/v1", "Deployment", parse_json('{"spec": {"replicas": 1.50}}'))
    assert problems.fatal is not None
    assert "cannot unmarshal number 1.50 into" in problems.fatal


def test_the_first_value_that_does_not_fit_is_reported() -> None:
    """In the order of the document, not of the type."""
    document = {"spec": {"hostPID": 1, "hostNetwork": "x"}}
    assert "spec.hostPID" in (_check("v1", "Pod", document).fatal or "")


def test_a_text_that_cannot_be_parsed_hides_a_wrong_type_before_it() -> None:
    """Go stops at the former and only remembers the latter."""
    document = {
        "spec": {"hostPID": 1, "containers": [{"resources": {"limits": {"cpu": "x"}}}]},
    }
    assert (_check("v1", "Pod", document).fatal or "").startswith("quantities must match")


def test_unknown_fields_are_reported_in_the_order_of_the_document() -> None:
    """With indices of lists in their paths."""
    document = {
        "metadata": {"bogusmeta": 1},
        "spec": {"containers": [{"bogus": "x", "ports": [{"zzz": 2}]}], "zap": [1]},
    }
    assert _check("v1", "Pod", document).strict == (
        'unknown field "metadata.bogusmeta"',
        'unknown field "spec.containers[0].bogus"',
        'unknown field "spec.containers[0].ports[0].zzz"',
        'unknown field "spec.zap"',
    )


def test_repeated_fields_are_reported_and_the_last_one_counts() -> None:
    """In structs and in maps."""
    text = '{"metadata":{"name":"x","name":"y"},"data":{"a":"1","a":"2"},"bogus":1,"bogus":2}'
    document = parse_json(text)
    assert _check("v1", "ConfigMap", document).strict == (
        'duplicate field "metadata.name"',
        'duplicate field "data.a"',
        'unknown field "bogus"',
    )
    canonical = BUILTIN[GVK("", "v1", "ConfigMap")].canonical(document)
    assert canonical == {"metadata": {"name": "y"}, "data": {"a": "2"}}


def test_a_repeated_struct_is_decoded_into_the_same_value() -> None:
    """Both parts of the metadata survive."""
    document = parse_json('{"metadata":{"name":"x"},"metadata":{"namespace":"n"}}')
    canonical = BUILTIN[GVK("", "v1", "ConfigMap")].canonical(document)
    assert canonical == {"metadata": {"name": "x", "namespace": "n"}}


def test_nothing_is_unknown_inside_a_schema_of_a_schema() -> None:
    """Types that decode themselves are not strict."""
    schema = {"openAPIV3Schema": {"bogus": 1, "items": {"bogus": 1}}}
    document = {"spec": {"versions": [{"schema": schema}]}}
    problems = _check("apiextensions.k8s.io/v1", "CustomResourceDefinition", document)
    assert problems.strict == ('unknown field "spec.versions[0].schema.openAPIV3Schema.bogus"',)
