"""The software that an image contains, as a CycloneDX document.

Read from what is installed, so it is made where the image is:
``python -m release.sbom exporter,scheduler``.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import TYPE_CHECKING, Any, Final

from numakube.manifests.release_image import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

_AUTHORS: Final = "The numakube authors"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


def sbom(root: str, extras: frozenset[str]) -> dict[str, Any]:
    """Return the document for *root* with its *extras*, and all that they need."""
    found: dict[str, Distribution] = {}
    _collect(root, _with_parts(root, extras), found)
    main = found.pop(_key(root))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component(main, "application")},
        "components": [_component(found[key], "library") for key in sorted(found)],
    }


def _collect(name: str, extras: frozenset[str], found: dict[str, Distribution]) -> None:
    try:
        one = distribution(name)
    except PackageNotFoundError:
        return  # For another platform or version of Python.
    found[_key(name)] = one
    for needed in _needed(one, extras):
        if _key(needed) not in found:
            _collect(needed, frozenset(), found)


def _with_parts(root: str, extras: frozenset[str]) -> frozenset[str]:
    """Return *extras* with those that they consist of: ``all`` names others of the same root."""
    parts = set(extras)
    for line in distribution(root).requires or ():
        extra = _EXTRA.search(line)
        own = re.match(rf"{re.escape(root)}\[([^]]*)\]", line)
        if own is not None and extra is not None and extra[1] in extras:
            parts |= set(own[1].replace(" ", "").split(","))
    return extras if parts == extras else _with_parts(root, frozenset(parts))


def _needed(one: Distribution, extras: frozenset[str]) -> Iterator[str]:
    for line in one.requires or ():
        extra = _EXTRA.search(line)
        name = _NAME.match(line)
        if name is not None and (extra is None or extra[1] in extras):
            yield name[0]


def _component(one: Distribution, type_: str) -> dict[str, Any]:
    name = one.metadata["Name"]
    # Ours have one version; what an editable installation says is that of the day it was made.
    ours = one.metadata.get_all("Author") == [_AUTHORS]
    version = VERSION if ours else one.version
    licenses = one.metadata.get_all("License-Expression") or ()
    stated = {"licenses": [{"expression": one} for one in licenses]} if licenses else {}
    purl = f"pkg:pypi/{_key(name)}@{version}"
    return {
        "type": type_,
        "name": name,
        "version": version,
        "purl": purl,
        "bom-ref": purl,
        **stated,
    }


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Print the document for the extras that the command line names."""
    words = frozenset(sys.argv[1].split(",")) if len(sys.argv) > 1 else frozenset()
    json.dump(sbom("numakube", words), sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
