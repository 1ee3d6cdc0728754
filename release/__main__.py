"""``python -m release FOLDER``: build a release, and say what keeps it from being published."""

from __future__ import annotations

import sys
from pathlib import Path

from release.build import build, obstacles


def main(folder: str) -> None:
    """Build into *folder*; paths go to standard output, remarks to standard error."""
    for path in build(Path(folder)):
        print(path)
    for obstacle in obstacles():
        print(f"not to be published: {obstacle}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "dist")
