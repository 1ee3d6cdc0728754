"""Which versions go together, by the rules of docs/how-to/upgrade.md."""

from __future__ import annotations

import pytest

from numakube.api.meta import ObjectMeta, ServerVersion
from numakube.api.nodes import Node, NodeStatus, NodeSystemInfo
from numakube.api.pod import Container, PodSpec
from numakube.api.workloads import PodTemplate, Workload, WorkloadSpec
from numakube.insight.facts import ClusterFacts
from numakube.insight.version_skew import Standing, version_of_image, versions_in


def node(name: str, version: str) -> Node:
    """Return a node whose kubelet has that version."""
    status = NodeStatus(node_info=NodeSystemInfo(kubelet_version=version))
    return Node(metadata=ObjectMeta(name=name), status=status)


@pytest.mark.parametrize(
    ("version", "standing"),
    [
        ("v1.30.9", Standing.NO),
        ("v1.31.0", Standing.YES),
        ("v1.37.2-eks", Standing.YES),
        ("v1.38.0", Standing.UNKNOWN),
        ("", Standing.UNKNOWN),
    ],
)
def test_the_api_server_is_one_that_was_tried(version: str, standing: Standing) -> None:
    """A newer one may be right, which nobody knows."""
    (server,) = versions_in(ClusterFacts(version=ServerVersion(git_version=version)), "0.9.0")
    assert server.supported == standing
    assert bool(server.why) == (standing != Standing.YES)


@pytest.mark.parametrize(
    ("version", "standing"),
    [
        ("v1.20.0", Standing.NO),
        ("v1.21.0", Standing.PARTLY),
        ("v1.28.1", Standing.YES),
        ("v1.39.0", Standing.PARTLY),
        ("", Standing.UNKNOWN),
    ],
)
def test_kubelets_are_counted_by_version(version: str, standing: Standing) -> None:
    """Older ones are judged by counts, newer ones taken for the newest that is known."""
    nodes = {"a": node("a", version), "b": node("b", version)}
    _, kubelets = versions_in(ClusterFacts(nodes=nodes), "0.9.0")
    assert (kubelets.what, kubelets.supported) == ("2 kubelets", standing)


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("ghcr.io/numakube/numakube:0.9.0", "0.9.0"),
        ("registry.example:5000/numakube:v1.2.3-rc.1@sha256:00", "1.2.3-rc.1"),
        ("registry.example:5000/numakube", ""),
        ("numakube@sha256:00", ""),
        ("numakube:latest", ""),
    ],
)
def test_the_tag_of_an_image_is_its_version(image: str, version: str) -> None:
    """A port is no tag, and a digest no version."""
    assert version_of_image(image) == version


@pytest.mark.parametrize(
    ("own", "image", "standing"),
    [
        ("0.9.0", "numakube:0.9.3", Standing.YES),
        ("1.0.0", "numakube:0.9.0", Standing.YES),
        ("0.9.0", "numakube:1.0.2", Standing.YES),
        ("1.2.0", "numakube:1.1.0", Standing.YES),
        ("1.2.0", "numakube:1.0.0", Standing.NO),
        ("1.1.0", "numakube:0.9.0", Standing.NO),
        ("1.0.0", "numakube:main", Standing.UNKNOWN),
    ],
)
def test_programs_are_of_neighbouring_minor_versions(
    own: str, image: str, standing: Standing
) -> None:
    """1.0 follows 0.9, whose successor it is."""
    container = Container(name="c", image=f"ghcr.io/numakube/{image}", args=("scheduler",))
    other = Container(name="o", image="registry.example/other:7")
    template = PodTemplate(spec=PodSpec(containers=(container, other)))
    workload = Workload(metadata=ObjectMeta(name="s"), spec=WorkloadSpec(template=template))
    *_, program = versions_in(ClusterFacts(deployments=(workload,)), own)
    assert (program.what, program.supported) == ("deployment/s", standing)
