"""What the webhook says to one request."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.errors import MalformedObject
from numakube_placement.webhook.admission_review import (
    AdmissionRequest,
    AdmissionResponse,
    judge,
    judge_allotment,
    read_review,
    write_review,
)

SPEC = "scheduling.koordinator.sh/numa-topology-spec"
GOOD = '{"numaTopologyPolicy": "Restricted"}'
BAD = '{"numaTopologyPolicy": "strict", "numaTopologyScope": "all"}'


def pod(text: str, **meta: Any) -> dict[str, Any]:
    """Return a pod with this annotation."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "annotations": {SPEC: text}, **meta},
        "spec": {"containers": [{"name": "main"}]},
    }


def asked(obj: Any, operation: str = "CREATE", **more: Any) -> AdmissionResponse:
    """Return the answer to a request."""
    return judge(AdmissionRequest(uid="u1", operation=operation, object=obj, **more))


def test_a_pod_without_mistakes_is_allowed() -> None:
    """The answer names the question."""
    assert asked(pod(GOOD)) == AdmissionResponse(uid="u1", allowed=True)


def test_a_pod_with_mistakes_is_refused_with_a_cause_for_each() -> None:
    """Clients show the message, programs read the fields."""
    answer = asked(pod(BAD))
    assert (answer.uid, answer.allowed) == ("u1", False)
    assert answer.status is not None
    assert answer.status.code == 422
    assert "unknown word 'strict'" in answer.status.message
    assert [cause.field for cause in answer.status.details.causes] == [
        f"metadata.annotations[{SPEC}].numaTopologyPolicy",
        f"metadata.annotations[{SPEC}].numaTopologyScope",
    ]


def test_only_what_is_new_is_held_against_an_update() -> None:
    """A pod that is wrong already must be able to lose a finalizer."""
    assert asked(pod(BAD), "UPDATE", old_object=pod(BAD)).allowed
    assert asked(pod(GOOD), "UPDATE", old_object=pod(BAD)).allowed
    assert not asked(pod(BAD), "UPDATE", old_object=pod(GOOD)).allowed


@pytest.mark.parametrize(
    ("obj", "operation", "more"),
    [
        (None, "DELETE", {"old_object": pod(BAD)}),
        (pod(BAD), "CONNECT", {}),
        (pod(BAD), "UPDATE", {"sub_resource": "status"}),
        (pod(BAD, deletionTimestamp="2026-01-01T00:00:00Z"), "UPDATE", {}),
        ({"kind": "Service"}, "CREATE", {}),
    ],
)
def test_what_is_none_of_its_business_is_allowed(
    obj: Any, operation: str, more: dict[str, Any]
) -> None:
    """Without a word."""
    assert asked(obj, operation, **more) == AdmissionResponse(uid="u1", allowed=True)


def test_templates_and_nodes_are_warned_about() -> None:
    """What is changed there may be something else altogether."""
    template = {"kind": "Deployment", "spec": {"template": pod(BAD)}}
    answer = asked(template)
    assert answer.allowed
    assert [warning.split(": ")[0] for warning in answer.warnings] == [
        f"spec.template.metadata.annotations[{SPEC}].numaTopologyPolicy",
        f"spec.template.metadata.annotations[{SPEC}].numaTopologyScope",
    ]
    labels = {"node.koordinator.sh/numa-topology-scope": "x" * 63}
    node = {"kind": "Node", "metadata": {"labels": labels}}
    (warning,) = asked(node).warnings
    assert len(warning) <= 256


def test_a_pod_that_only_we_cannot_read_is_allowed_with_a_warning() -> None:
    """API servers have read it."""
    answer = asked({**pod(GOOD), "spec": {"containers": 3}})
    assert answer.allowed
    assert "numakube cannot read this pod" in answer.warnings[0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
        b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {}}',
        b'{"apiVersion": "v1", "kind": "Pod", "request": {"uid": "u"}}',
    ],
)
def test_what_is_no_question_is_malformed(body: bytes) -> None:
    """Only version v1 is spoken."""
    with pytest.raises(MalformedObject):
        read_review(body)


def test_the_answer_has_the_form_of_the_question() -> None:
    """Refusals have a status, others none."""
    assert write_review(asked(pod(GOOD))) == (
        b'{"response":{"uid":"u1","allowed":true},'
        b'"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}'
    )


GIVEN = "scheduling.koordinator.sh/resource-status"
DEVICES = "scheduling.koordinator.sh/device-allocated"


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        (None, {}, ""),
        (None, {GIVEN: '{"cpuset": "1"}'}, GIVEN),
        (None, {GIVEN: "{}", DEVICES: '{"gpu": []}'}, DEVICES),
        (None, {GIVEN: '{"cpuset": "1"}', DEVICES: '{"gpu": []}'}, f"{GIVEN} and {DEVICES}"),
        ({GIVEN: '{"cpuset": "1"}'}, {GIVEN: '{"cpuset": "1"}'}, ""),
        ({GIVEN: '{"cpuset": "1"}'}, {GIVEN: '{"cpuset": "2"}'}, GIVEN),
        ({GIVEN: '{"cpuset": "1"}'}, {}, ""),
        ({GIVEN: '{"cpuset": "1"}'}, {GIVEN: "{}"}, ""),
    ],
)
def test_a_user_cannot_say_what_a_pod_was_given(
    old: dict[str, str] | None, new: dict[str, str], refused: str
) -> None:
    """What a scheduler has written may stay or go."""
    request = AdmissionRequest(
        uid="u1",
        object={"metadata": {"annotations": new}},
        old_object=None if old is None else {"metadata": {"annotations": old}},
    )
    answer = judge_allotment(request)
    assert answer.allowed is not bool(refused)
    if answer.status is not None:
        assert (answer.status.code, answer.status.reason) == (403, "Forbidden")
        assert answer.status.message.startswith(f"only schedulers may write {refused}: ")


def test_an_object_without_annotations_says_nothing() -> None:
    """Whatever stands in their place."""
    trees: list[dict[str, Any]] = [{}, {"metadata": None}, {"metadata": {"annotations": None}}]
    for tree in trees:
        assert judge_allotment(AdmissionRequest(uid="u1", object=tree)).allowed
