"""What was built from what, as an in-toto statement with SLSA's provenance predicate (version 1).

It names each file by its checksum, and the commit, the constraints and the list of wheels that it
was built from. It has no times and no names of machines, so that whoever builds the same commit
gets the same statement, and only the signature differs.
"""

from __future__ import annotations

import hashlib
import subprocess
from typing import TYPE_CHECKING, Any, Final

from numakube.manifests.release_image import VERSION
from release.krew import HOME
from release.project import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://slsa.dev/provenance/v1"
PAGE: Final = f"{HOME}/blob/v{VERSION}/docs/contribute/make-a-release.md"
BUILD_TYPE: Final = f"{PAGE}#what-is-in-dist"
BY_HAND: Final = f"{PAGE}#make-a-release"
"""The builder if nobody names another: a person who follows that page."""
INPUTS: Final = ("constraints.txt", "release/image-requirements.txt")


def statement(files: Iterable[Path], commit: str, *, builder: str = BY_HAND) -> dict[str, Any]:
    """Return the statement about *files*, built from *commit*."""
    source = {"uri": f"git+{HOME}@refs/tags/v{VERSION}", "digest": {"gitCommit": commit}}
    inputs = [{"uri": f"file:{name}", "digest": _digest(ROOT / name)} for name in INPUTS]
    return {
        "_type": STATEMENT,
        "subject": [{"name": file.name, "digest": _digest(file)} for file in sorted(files)],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"source": source["uri"], "command": "make dist"},
                "resolvedDependencies": [source, *inputs],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def commit() -> str:
    """Return the commit of the tree, or zeros where there is none, as in a source archive."""
    words = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() if done.returncode == 0 else "0" * 40


def _digest(path: Path) -> dict[str, str]:
    return {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
