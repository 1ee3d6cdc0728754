"""What the repository tells people and machines about the project holds together."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from release.project import ROOT

from numakube.api.yaml_text import load_yaml

FORMS = sorted(ROOT.glob(".github/**/*.yml"))
HERE = re.compile(r"https://github\.com/numakube/numakube/blob/main/([\w./-]+)")
SITE = re.compile(r"https://numakube\.github\.io/numakube/([\w./-]+)/")


def document(path: str) -> dict[str, Any]:
    """Return what a YAML file says."""
    found = load_yaml((ROOT / path).read_text(encoding="utf-8"), path)
    assert isinstance(found, dict)
    return found


def test_public_checks_run_what_developers_run() -> None:
    """On every Python that the package says it is for, and on arm64."""
    job = document(".github/workflows/test.yml")["jobs"]["test"]
    assert {"run": ".ci/run"} in job["steps"]
    matrix = job["strategy"]["matrix"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = re.findall(r":: (3\.\d+)", "\n".join(project["classifiers"]))
    assert set(named) <= set(matrix["python"])
    assert [entry["runner"] for entry in matrix["include"]] == ["ubuntu-24.04-arm"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_workflows_have_no_more_rights_than_they_say(form: Any) -> None:
    """A workflow starts with reading alone; all files can be read."""
    found = document(str(form.relative_to(ROOT)))
    if form.parent.name == "workflows":
        assert found["permissions"] in ({"contents": "read"}, "read-all")
        steps = [step for job in found["jobs"].values() for step in job["steps"]]
        assert all("uses" in step or "run" in step for step in steps)
        checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
        assert all(checkout["with"]["persist-credentials"] is False for checkout in checkouts)


@pytest.mark.parametrize("file", ["SECURITY-INSIGHTS.yml", ".github/ISSUE_TEMPLATE/config.yml"])
def test_addresses_of_the_project_are_files_of_the_tree(file: str) -> None:
    """In the repository, or pages of the site."""
    document(file)
    text = (ROOT / file).read_text(encoding="utf-8")
    assert [path for path in HERE.findall(text) if not (ROOT / path).exists()] == []
    assert [page for page in SITE.findall(text) if not (ROOT / f"docs/{page}.md").exists()] == []


def test_nobody_is_named_who_has_not_named_themselves() -> None:
    """The list of adopters starts empty, and says how to get into it."""
    text = (ROOT / "ADOPTERS.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) >= 2
    assert "pull request" in text
