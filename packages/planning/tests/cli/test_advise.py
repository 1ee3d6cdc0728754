"""``kubectl numa plan advise`` on a bundle."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from packages.planning.tests.test_advice import cluster
from tests.cli.conftest import Ended
from tests.cli.printed_pages import check_printed
from tests.insight.explain.bundling import collected_of

from numakube.api.meta import OwnerReference
from numakube.apps.anonymising.anonymise import anonymise
from numakube.apps.bundle import pack
from numakube.testing import pod

Run = Callable[..., Ended]
MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  template:
    spec:
      schedulerName: numakube-scheduler
      containers:
      - name: app
        resources: {limits: {cpu: "8", memory: 8Gi}}
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return three nodes on which CPUs and memory are reserved in both zones, and a job's pod."""
    world = cluster()
    owner = OwnerReference(
        api_version="batch/v1", kind="Job", name="train", uid="train", controller=True
    )
    one = pod("train-1", cpu="4")
    meta = msgspec.structs.replace(one.metadata, owner_references=(owner,))
    world.run(msgspec.structs.replace(one, metadata=meta), "node-0")
    path = tmp_path / "cluster.tar.gz"
    path.write_bytes(pack(collected_of(world.facts())))
    path.with_name("anonymous.tar.gz").write_bytes(pack(anonymise(collected_of(world.facts()))))
    path.with_name("web.yaml").write_text(MANIFEST, encoding="utf-8")
    return path


def test_the_page_shows_what_it_prints(numakube: Run, bundle: Path) -> None:
    """For a manifest, and the same on a bundle without names."""
    manifest = bundle.with_name("web.yaml")
    ended = numakube("advise", "-f", manifest, "--from", bundle)
    assert ended.code == 0
    check_printed(
        "reference/explain.md", "advise", f"$ kubectl numa plan advise -f web.yaml\n{ended.out}"
    )
    anonymous = numakube("advise", "-f", manifest, "--from", bundle.with_name("anonymous.tar.gz"))
    assert re.sub(r"node-\d", "node-0", anonymous.out) == ended.out


@pytest.mark.parametrize("words", [("job/train",), ("pod", "train-1"), ("train-1",)])
def test_what_exists_is_advised_on_by_name(
    numakube: Run, bundle: Path, words: tuple[str, ...]
) -> None:
    """A workload by one of its pods."""
    found = json.loads(numakube("advise", *words, "--from", bundle, "-o", "json").out)
    assert (found["kind"], found["requests"]["cpu"]) == ("RequestAdvice", "4")
    assert found["smaller"][0]["to"] == "3"


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        ((), "KIND/NAME, -f FILE or --shape RESOURCES.", 2),
        (("node/node-0",), "'node/node-0' is not like pod/NAME or deployment/NAME.", 2),
        (("pod", "a", "b"), "'pod a b' is not like", 2),
        (("deployment/none",), "no pod of deployment none is in namespace default", 1),
        (("pod/none",), "there is no pod none in namespace default", 1),
    ],
)
def test_what_cannot_be_found_is_said(
    numakube: Run, bundle: Path, words: tuple[str, ...], message: str, code: int
) -> None:
    """By name."""
    ended = numakube("advise", *words, "--from", bundle)
    assert message in ended.err
    assert ended.code == code
