"""The documentation of each minor version has a folder, and every version a menu of all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from release.versioned_site import build_site, with_version, write_index


def test_versions_are_listed_with_the_newest_first() -> None:
    """By number, and a patch takes the place of its minor version."""
    known = with_version(with_version(with_version([], "0.9.0"), "1.10.0"), "1.2.3")
    assert [one["version"] for one in known] == ["1.10", "1.2", "0.9"]
    assert [one["aliases"] for one in known] == [["latest"], [], []]
    assert with_version(known, "1.2.4")[1] == {"version": "1.2", "title": "1.2.4", "aliases": []}
    assert with_version(known, "2.0.0")[1]["aliases"] == []


def test_the_first_page_leads_to_the_newest_version(tmp_path: Path) -> None:
    """Also when pages of an older one are built again."""
    write_index(tmp_path, "1.1.0")
    write_index(tmp_path, "1.0.7")
    assert 'url=1.1/"' in (tmp_path / "index.html").read_text()
    assert len(json.loads((tmp_path / "versions.json").read_text())) == 2


def test_pages_of_a_version_are_built_beside_others_and_know_the_menu(tmp_path: Path) -> None:
    """Where MkDocs is installed, as `make docs` does it."""
    pytest.importorskip("mkdocs")
    other = tmp_path / "0.8" / "index.html"
    other.parent.mkdir()
    other.write_text("kept")
    place = build_site(tmp_path, "0.9.0")
    assert place == tmp_path / "0.9"
    assert other.read_text() == "kept"
    page = (place / "start" / "telco" / "index.html").read_text()
    assert '"provider": "mike"' in page
    assert "https://numakube.github.io/numakube/0.9/start/telco/" in page
