"""A hook of MkDocs: addresses of pages that went into others lead to where their text is.

`extra.moved` of mkdocs.yml has them. Whoever moves a page adds a line there, because addresses
stand in bookmarks, in other people's pages, and in what older versions print.
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
