"""What API servers are answered about new pods."""

from __future__ import annotations

import base64
import json
from copy import deepcopy
from typing import Any

import pytest
from test_claim_writing import BURSTABLE, SERVING, container, pod, written

from kube_lab_server.patching.json_patch import json_patch
from numakube_dra_driver.claims.claim_writing import POLICY, SCOPE
from numakube_dra_driver.claims.pod_review import answer
from numakube_placement.webhook.admission_review import AdmissionRequest, AdmissionResponse


def asked(tree: Any, label: str = "", **request: Any) -> AdmissionResponse:
    """Return the answer about a new pod in a namespace with a label."""
    request = {"operation": "CREATE", "namespace": "shop", **request}
    before = deepcopy(tree)
    found = answer(AdmissionRequest(uid="u", object=tree, **request), SERVING, label)
    assert tree == before
    assert found.uid == "u"
    return found


def patched(tree: Any, response: AdmissionResponse) -> Any:
    """Return the pod as the API server makes it of an answer."""
    operations = json.loads(base64.b64decode(response.patch))
    return json_patch(deepcopy(tree), operations)


def saying(policy: str, scope: str = "", **spec: Any) -> Any:
    """Return a pod with annotations, as an API server has it that has given it no name yet."""
    tree = pod(container(cpu="4", vfs="1"), **spec)
    said = {POLICY: policy, SCOPE: scope}
    annotations = {key: value for key, value in said.items() if value}
    tree["metadata"] = {"generateName": "web-", "annotations": annotations}
    return tree


def test_an_annotation_alone_makes_a_pod_one_with_a_claim() -> None:
    tree = saying("single-numa-node")
    response = asked(tree)
    assert response.allowed
    assert response.patch_type == "JSONPatch"
    found = patched(tree, response)
    assert found["spec"] == written(tree).pod["spec"]
    assert found["metadata"].keys() == {"generateName", "annotations", "labels"}
    again = asked(found)
    assert (again.allowed, again.patch) == (True, "")


def test_the_label_of_a_namespace_does_so_for_all_of_its_pods() -> None:
    tree = pod(container(cpu="4"))
    found = patched(tree, asked(tree, "socket"))
    assert found["metadata"]["annotations"][POLICY] == "socket"
    assert not asked(tree).patch


def test_a_pod_says_more_than_its_namespace() -> None:
    assert not asked(saying("false"), "single-numa-node").patch
    tree = saying("socket")
    found = patched(tree, asked(tree, "single-numa-node"))
    assert found["metadata"]["annotations"][POLICY] == "socket"


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (saying("single"), "single is none of single-numa-node, socket, none, false"),
        (saying("none", "node"), "node is none of pod, container"),
        (
            {**saying("none"), "spec": {"containers": [{"name": "a", "resources": {"limits": 3}}]}},
            "resources.limits",
        ),
        (
            pod({"name": "a", "resources": {"limits": {"cpu": "x", "memory": "1"}}}),
            "x",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(tree: Any, words: str) -> None:
    response = asked(tree, "single-numa-node")
    assert not response.allowed
    assert response.status is not None
    assert words in response.status.message


def test_who_asks_for_a_claim_and_gets_none_is_told_why() -> None:
    tree = saying("single-numa-node")
    tree["spec"] = pod(BURSTABLE)["spec"]
    (warning,) = asked(tree).warnings
    assert warning.startswith("no claim is written: it is Burstable")
    assert asked(pod(BURSTABLE), "single-numa-node").warnings == ()


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE"},
        {"operation": "CREATE", "sub_resource": "eviction"},
    ],
)
def test_other_requests_are_let_through(request_: dict[str, Any]) -> None:
    response = asked(saying("single"), **request_)
    assert (response.allowed, response.patch) == (True, "")


def test_a_record_that_somebody_else_wrote_is_refused() -> None:
    """A pod that says that it has a claim of ours, which it does not."""
    tree = saying("single-numa-node")
    tree["metadata"]["annotations"]["numakube.dev/claim-requests"] = '{"adminAccess": true}'
    tree["spec"]["resourceClaims"] = [{"name": "numa", "resourceClaimTemplateName": "x"}]
    response = asked(tree)
    assert not response.allowed
