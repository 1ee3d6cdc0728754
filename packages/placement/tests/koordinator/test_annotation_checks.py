"""The validating check: pods, what makes pods, and nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.pod import TEMPLATES
from numakube_placement.koordinator.annotation_checks import findings_in

QOS = "koordinator.sh/qosClass"
PRIORITY = "koordinator.sh/priority-class"
SPEC = "scheduling.koordinator.sh/numa-topology-spec"


def pod(
    labels: dict[str, Any] | None = None, cpu: str = "2", /, **annotations: Any
) -> dict[str, Any]:
    """Return a pod without its kind."""
    return {
        "metadata": {"labels": labels or {}, "annotations": {SPEC: "{}", **annotations}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]},
    }


def made_by(kind: str, template: Any) -> dict[str, Any]:
    """Return an object of *kind* that makes pods of *template*."""
    tree = template
    for step in reversed(TEMPLATES[kind]):
        tree = {step: tree}
    return {"kind": kind, **tree}


@pytest.mark.parametrize("kind", TEMPLATES)
def test_templates_are_checked_as_pods_are(kind: str) -> None:
    """The path begins where the template is."""
    bad = pod({QOS: "LSR"}, "1500m")
    (of_pod,) = findings_in({"kind": "Pod", **bad}) or ()
    (of_template,) = findings_in(made_by(kind, bad)) or ()
    assert of_template == f"{'.'.join(TEMPLATES[kind])}.{of_pod}"
    assert findings_in(made_by(kind, pod())) == ()
    assert findings_in(made_by(kind, None)) == (f"{'.'.join(TEMPLATES[kind])}: is required",)


@pytest.mark.parametrize("kind", ["Service", "", None, 3, ["Pod"]])
def test_other_kinds_are_not_looked_at(kind: Any) -> None:
    """Which is not the same as being right."""
    assert findings_in({"kind": kind, "spec": 1}) is None


def test_json_that_is_not_quoted_in_yaml_is_told() -> None:
    """The commonest slip: an object where an annotation must be a text."""
    bad = pod(**{SPEC: {"numaTopologyPolicy": "Restricted"}})
    (finding,) = findings_in({"kind": "Pod", **bad}) or ()
    assert finding == f"metadata.annotations[{SPEC}]: expected a string, got an object"


@pytest.mark.parametrize(
    ("labels", "cpu", "said"),
    [
        ({QOS: "LRS"}, "2", f"metadata.labels[{QOS}]: unknown word 'LRS': use one of LSE, LSR"),
        ({PRIORITY: "prod"}, "2", f"metadata.labels[{PRIORITY}]: unknown word 'prod'"),
        ({QOS: "LSR", PRIORITY: "koord-batch"}, "2", "LSR needs priority class koord-prod"),
        ({QOS: "BE", PRIORITY: "koord-prod"}, "2", "BE does not go with priority class koord-prod"),
        ({QOS: "LSE"}, "0", "LSE Pod must declare the requested CPUs"),
    ],
)
def test_classes_that_koordinators_webhook_refuses_are_told(
    labels: dict[str, str], cpu: str, said: str
) -> None:
    """They would silently not be bound."""
    (finding,) = findings_in({"kind": "Pod", **pod(labels, cpu)}) or ()
    assert said in finding


@pytest.mark.parametrize("qos", ["LSE", "LSR", "LS", "BE", "SYSTEM"])
def test_a_class_alone_is_right(qos: str) -> None:
    """It brings its priority class along."""
    assert findings_in({"kind": "Pod", **pod({QOS: qos})}) == ()


def test_labels_and_annotations_of_nodes_are_checked() -> None:
    """All that placement reads."""
    node = {
        "kind": "Node",
        "metadata": {
            "labels": {"node.koordinator.sh/numa-topology-policy": "Strict"},
            "annotations": {
                "node.koordinator.sh/resource-amplification-ratio": '{"cpu": 0.5}',
                "node.koordinator.sh/reservation": '{"reservedCPUs": "x"}',
            },
        },
    }
    assert [finding.split(": ")[0] for finding in findings_in(node) or ()] == [
        "metadata.labels[node.koordinator.sh/numa-topology-policy]",
        "metadata.annotations[node.koordinator.sh/resource-amplification-ratio][cpu]",
        "metadata.annotations[node.koordinator.sh/reservation].reservedCPUs",
    ]
    assert findings_in({"kind": "Node", "metadata": {"labels": 3}}) is not None


_JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["metadata", "spec", "template", "labels"]), inner)
    ),
    max_leaves=8,
)


@given(st.sampled_from(["Pod", "Node", *TEMPLATES]), _JSON, _JSON)
def test_no_object_whatsoever_raises(kind: str, metadata: Any, spec: Any) -> None:
    """Manifests are what people write."""
    assert findings_in({"kind": kind, "metadata": metadata, "spec": spec}) is not None
