"""The site shows pages as they are meant: what its Markdown extensions do not know, they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.pages import ROOT
from tests.docs.test_docs import anchors_of

from numakube.api.yaml_text import load_yaml

PAGES = sorted(ROOT.glob("docs/**/*.md"))
FENCE = re.compile(r"^ *```(?P<info>.*)$", re.MULTILINE)
KNOWN = re.compile(r"[a-z]*( (title|linenums|hl_lines)=\"[^\"]*\")*")
"""What pymdownx.superfences takes behind a fence; with anything else there is no fence."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_site_knows_what_stands_behind_a_fence(page: Path) -> None:
    """Otherwise prose becomes code and code becomes prose, to the end of the page."""
    infos = [match["info"] for match in FENCE.finditer(page.read_text(encoding="utf-8"))]
    assert [info for info in infos if not KNOWN.fullmatch(info)] == []
    assert not len(infos) % 2, "a fence is not closed"


def _site() -> dict[str, object]:
    config = load_yaml((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), "mkdocs.yml")
    assert isinstance(config, dict)
    return config


def test_no_page_asks_another_server_for_anything() -> None:
    """No fonts, and a link to the repository that does not ask api.github.com for its stars."""
    theme = _site()["theme"]
    assert isinstance(theme, dict)
    assert theme["font"] is False
    link = (ROOT / theme["custom_dir"] / "partials" / "source.html").read_text(encoding="utf-8")
    assert "data-md-component" not in link


def test_words_are_found_that_other_searches_leave_out() -> None:
    """Such as the first half of must-gather."""
    plugins = _site()["plugins"]
    assert isinstance(plugins, list)
    # The search looks for beginnings of words, and a stem is not the beginning of its word.
    assert plugins[0]["search"]["pipeline"] == ["trimmer"]
    text = "".join(page.read_text(encoding="utf-8").lower() for page in PAGES)
    assert [word for word in ("must-gather", "backup", "slurm", "mpi") if word not in text] == []


def test_users_have_at_most_fifty_pages() -> None:
    """More are not found. What developers and measurements need is apart."""
    apart = ("contribute", "results", "figures")
    names = [page.relative_to(ROOT / "docs") for page in PAGES]
    assert len([name for name in names if name.parts[0] not in apart]) <= 50


def test_old_addresses_lead_to_where_their_text_is() -> None:
    extra = _site()["extra"]
    assert isinstance(extra, dict)
    for old, new in extra["moved"].items():
        page, _, anchor = new.partition("#")
        assert not (ROOT / "docs" / old).exists()
        assert anchor in anchors_of(ROOT / "docs" / page), new


def test_no_page_of_the_built_site_has_a_fence_left(tmp_path: Path) -> None:
    """Where MkDocs is installed, as `make docs` does it."""
    build = pytest.importorskip("mkdocs.commands.build")
    config = pytest.importorskip("mkdocs.config").load_config
    build.build(config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=False))
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(PAGES) // 2
    assert [page.parent.name for page in pages if "```" in page.read_text("utf-8")] == []
    moved = (tmp_path / "how-to" / "harden" / "index.html").read_text("utf-8")
    (address,) = set(re.findall(r'href="([^"#]+)', moved))
    assert (tmp_path / "how-to" / "harden" / address / "index.html").exists()
