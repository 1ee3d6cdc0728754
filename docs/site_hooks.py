"""Hooks of MkDocs: what users look for comes first, and old addresses lead on.

Addresses of pages that went into others are in `extra.moved` of mkdocs.yml. Whoever moves a page
adds a line there, because addresses stand in bookmarks, in other people's pages, and in what older
versions print.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any, Final

_REDIRECT: Final = """\
<!doctype html>
<meta charset="utf-8">
<title>numakube</title>
<link rel="canonical" href="{address}">
<meta http-equiv="refresh" content="0; url={address}">
<a href="{address}">This page has moved.</a>
"""


_APART: Final = ("contribute/", "results/")
"""Pages for developers, and of measurements."""
_FIRST: Final = ("start/", "production.md", "how-to/why-is-my-pod-pending.md")
"""Pages that answer what most readers come with."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:  # noqa: ANN401 - as MkDocs calls
    """Let the search find pages for users before those for developers."""
    place = page.file.src_uri
    boost = 0.3 if place.startswith(_APART) else 2.0 if place.startswith(_FIRST) else 1.0
    page.meta.setdefault("search", {})["boost"] = boost
    return markdown


def folder_of(page: str) -> PurePosixPath:
    """Return where the site has a page: x.md is x/index.html."""
    return PurePosixPath(page).with_suffix("")


def on_post_build(config: Any, **_: Any) -> None:  # noqa: ANN401 - as MkDocs calls
    """Write a page for each old address."""
    for old, new in config["extra"]["moved"].items():
        page, _, anchor = new.partition("#")
        up = "../" * len(folder_of(old).parts)
        place = Path(config["site_dir"], folder_of(old))
        place.mkdir(parents=True)
        redirect = _REDIRECT.format(address=f"{up}{folder_of(page)}/#{anchor}")
        (place / "index.html").write_text(redirect, encoding="utf-8")
