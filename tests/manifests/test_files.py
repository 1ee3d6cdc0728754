"""The files under deploy/ are what the builders build."""

from __future__ import annotations

import os
from pathlib import Path

from numakube.api.yamls import dump_yaml
from numakube.manifests.scheduler import SchedulerManifest

FOLDER = Path(__file__).parents[2] / "deploy"
HEAD = (
    "# Made by numakube.manifests; change it there and run UPDATE_MANIFESTS=1 pytest "
    "tests/manifests.\n"
)


def namespace(name: str) -> dict[str, object]:
    """Return the namespace that everything goes to."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def test_the_scheduler_file_is_up_to_date() -> None:
    """Ready for ``kubectl apply -f``."""
    manifest = SchedulerManifest()
    documents = [namespace(manifest.namespace), *manifest.objects()]
    built = HEAD + "---\n".join(dump_yaml(one) for one in documents)
    path = FOLDER / "scheduler.yaml"
    if os.environ.get("UPDATE_MANIFESTS"):
        path.write_text(built, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == built
