"""News fragments: one file in ``changes.d/`` for each change that users notice.

Files of their own never conflict, as lines at the top of one changelog do. A release moves them
into CHANGELOG.md, newest section first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from release.project import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FOLDER: Final = ROOT / "changes.d"
CHANGELOG: Final = ROOT / "CHANGELOG.md"
EXPLANATION: Final = "README.md"
KINDS: Final = ("added", "changed", "deprecated", "removed", "fixed", "security")
"""In the order of a section."""
MARK: Final = "<!-- The newest version goes below this line. -->\n"
LENGTHS: Final = range(20, 601)
_NAME: Final = re.compile(rf"[a-z0-9]+(-[a-z0-9]+)*\.({'|'.join(KINDS)})\.md")
_ISSUE: Final = re.compile(r"(?<![\w&/])#\d+|\b(issue|PR|pull request) #?\d+", re.IGNORECASE)
_LINK: Final = re.compile(r"\]\((?!https?:)([^)#\s]+)")


@dataclass(frozen=True, slots=True)
class Change:
    """What one file says."""

    file: str
    text: str

    @property
    def kind(self) -> str:
        """The kind that the file's name says."""
        return self.file.split(".")[1]


def changes(folder: Path = FOLDER) -> list[Change]:
    """Return all fragments by name; what is not one of them is an error."""
    wrong = problems(folder)
    if wrong:
        raise ValueError("\n".join(wrong))
    return _read(folder)


def problems(folder: Path = FOLDER) -> list[str]:
    """Return what is wrong with the files of *folder*, one sentence each."""
    return [f"{change.file}: {problem}" for change in _read(folder) for problem in _wrong(change)]


def section(version: str, date: str, found: Iterable[Change]) -> str:
    """Return the section of CHANGELOG.md for *version*."""
    by_kind: dict[str, list[str]] = {}
    for change in found:
        by_kind.setdefault(change.kind, []).append(_item(change.text))
    parts = (
        f"### {kind.capitalize()}\n\n{''.join(by_kind[kind])}" for kind in KINDS if kind in by_kind
    )
    return "\n".join([f"## [{version}] - {date}\n", *parts])


def released(changelog: str, version: str) -> bool:
    """Tell whether *changelog* has a section for *version*."""
    return re.search(rf"^## \[{re.escape(version)}\] - ", changelog, re.MULTILINE) is not None


def with_section(changelog: str, text: str) -> str:
    """Return *changelog* with a new section above the others."""
    head, mark, tail = changelog.partition(MARK)
    if not mark:
        raise ValueError(f"CHANGELOG.md has no line {MARK.strip()!r}")
    return f"{head}{mark}\n{text}{tail}"


def move(version: str, date: str) -> int:
    """Move all fragments into CHANGELOG.md as *version*, and return how many there were."""
    found = changes()
    text = section(version, date, found)
    CHANGELOG.write_text(with_section(CHANGELOG.read_text("utf-8"), text), encoding="utf-8")
    for change in found:
        (FOLDER / change.file).unlink()
    return len(found)


def _read(folder: Path) -> list[Change]:
    files = sorted(path for path in folder.iterdir() if path.name != EXPLANATION)
    return [Change(path.name, path.read_text(encoding="utf-8")) for path in files]


def _wrong(change: Change) -> Iterator[str]:
    text = change.text.strip()
    if not _NAME.fullmatch(change.file):
        yield f"the name has to be NAME.KIND.md, with a KIND of {', '.join(KINDS)}"
    if len(text) not in LENGTHS:
        yield f"{len(text)} characters; between {LENGTHS[0]} and {LENGTHS[-1]} are allowed"
    if "\n\n" in text or text[:2] in ("- ", "* ", "# ", "##"):
        yield "write one paragraph, neither a list nor a heading"
    if text[-1:] not in (".", ")") or text[:1].islower():
        yield "write whole sentences, from a capital to a full stop"
    if _ISSUE.search(text):
        yield "say what has changed instead of a number that readers cannot look up"
    for page in _LINK.findall(text):
        if not (ROOT / page.lstrip("/")).exists():
            yield f"there is no {page} in the repository"


def _item(text: str) -> str:
    # CHANGELOG.md stands at the root, from where links start with or without a slash.
    lines = text.strip().replace("](/", "](").splitlines()
    return "".join(
        f"{'  ' if number else '- '}{line.strip()}\n" for number, line in enumerate(lines)
    )
