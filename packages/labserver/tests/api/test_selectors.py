"""Field selectors, and selectors of objects."""

from __future__ import annotations

import pytest

from kube_lab_server import RequestRefusal
from kube_lab_server.catalogue.field_selectors import matches_fields, parse_field_selector
from kube_lab_server.catalogue.resources import RESOURCES
from kube_lab_server.kinds.value_checks import matches

PODS = next(resource for resource in RESOURCES if resource.shelf == "pods")


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("spec.nodeName=n", True),
        ("spec.nodeName!=n", False),
        ("spec.host=n", True),
        ("status.phase=", True),
        ("spec.hostNetwork=false", True),
        ("status.podIPs=10.0.0.1", True),
        (r"metadata.name=a\,b", False),
    ],
)
def test_pods_are_selected_by_their_fields(text: str, selected: bool) -> None:
    """Fields that an object does not have count as empty."""
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n"},
        "status": {"podIPs": [{"ip": "10.0.0.1"}]},
    }
    assert matches_fields(parse_field_selector(text, PODS), pod) == selected


@pytest.mark.parametrize("text", ["spec.image=x", "metadata.name", r"metadata.name=\x", "a=b=c"])
def test_a_field_that_cannot_be_selected_by_is_refused(text: str) -> None:
    """With a 400."""
    with pytest.raises(RequestRefusal) as refused:
        parse_field_selector(text, PODS)
    assert refused.value.code == 400


def test_a_selector_object_without_requirements_selects_everything() -> None:
    """But no selector at all selects nothing."""
    assert matches({}, {"a": "b"})
    assert not matches(None, {"a": "b"})
