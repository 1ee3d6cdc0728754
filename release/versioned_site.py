"""The documentation of several versions beside each other, each in a folder of its own.

    python -m release site FOLDER

builds the pages of this version into FOLDER/MAJOR.MINOR, leaves those of others alone, and writes
FOLDER/versions.json, which the menu of every version reads, and FOLDER/index.html, which leads to
the newest. The form is that of mike, so that mike can go on with such a folder.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, Final

from release.project import ROOT

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS: Final = "versions.json"
NEWEST: Final = "latest"
_REDIRECT: Final = """\
<!doctype html>
<meta charset="utf-8">
<title>numakube</title>
<meta http-equiv="refresh" content="0; url={folder}/">
<a href="{folder}/">numakube {title}</a>
"""


def folder_of(version: str) -> str:
    """Return where the pages of a version are: patches share those of their minor version."""
    return ".".join(version.split(".")[:2])


def with_version(known: list[dict[str, Any]], version: str) -> list[dict[str, Any]]:
    """Return the list of versions with *version*, the newest first, which is called so."""
    folder = folder_of(version)
    others = [one for one in known if one["version"] != folder]
    listed = [*others, {"version": folder, "title": version}]
    listed.sort(key=lambda one: [int(part) for part in one["version"].split(".")], reverse=True)
    return [{**one, "aliases": [] if number else [NEWEST]} for number, one in enumerate(listed)]


def build_site(folder: Path, version: str) -> Path:
    """Build the pages of this tree beside those of other versions; return where."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    place = folder.resolve() / folder_of(version)
    shutil.rmtree(place, ignore_errors=True)
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(place), strict=True)
    config["site_url"] = f"{config['site_url']}{place.name}/"
    config["extra"] = {**config["extra"], "version": {"provider": "mike"}}
    build(config)
    write_index(folder, version)
    return place


def write_index(folder: Path, version: str) -> None:
    """Write the list of versions, and the page that leads to the newest."""
    listing = folder / VERSIONS
    known = json.loads(listing.read_text(encoding="utf-8")) if listing.exists() else []
    versions = with_version(known, version)
    listing.write_text(json.dumps(versions, indent=2) + "\n", encoding="utf-8")
    newest = versions[0]
    page = _REDIRECT.format(folder=newest["version"], title=newest["title"])
    (folder / "index.html").write_text(page, encoding="utf-8")
