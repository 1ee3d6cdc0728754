"""``kubectl krew install numa``: a plug-in of kubectl that runs the released package.

krew installs archives, and a Python program with compiled dependencies is not one file. So the
archive has a launcher that leaves the installation of just this version to uv or pipx.
"""

from __future__ import annotations

from typing import Any, Final

from numakube.manifests.release_image import VERSION

HOME: Final = "https://github.com/numakube/numakube"
ARCHIVE: Final = f"kubectl-numa-{VERSION}.tar.gz"
PROGRAM: Final = "kubectl-numa"
LAUNCHER: Final = f"""\
#!/bin/sh
# Runs kubectl numa {VERSION} by uv or pipx, whichever is there.
set -eu
if command -v uvx >/dev/null 2>&1; then
  exec uvx --quiet --from numakube=={VERSION} {PROGRAM} "$@"
fi
if command -v pipx >/dev/null 2>&1; then
  exec pipx run --spec numakube=={VERSION} {PROGRAM} "$@"
fi
echo "error: kubectl numa needs uv or pipx; or install it by: pip install numakube=={VERSION}" >&2
exit 1
"""


def manifest(sha256: str) -> dict[str, Any]:
    """Return the manifest for krew's index, for an archive with this checksum."""
    platform = {
        "selector": {"matchLabels": {"os": "linux"}},
        "uri": f"{HOME}/releases/download/v{VERSION}/{ARCHIVE}",
        "sha256": sha256,
        "files": [{"from": name, "to": "."} for name in (PROGRAM, "LICENSE")],
        "bin": PROGRAM,
    }
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "numa"},
        "spec": {
            "version": f"v{VERSION}",
            "homepage": HOME,
            "shortDescription": "Explain and inspect NUMA-aware scheduling",
            "description": (
                "Says why a pod waits or where it runs, NUMA zone by NUMA zone, and what would\n"
                "help; draws nodes, lists what is free and stranded, and checks a cluster.\n"
            ),
            "caveats": "Needs uv or pipx, and Python 3.11 or newer.\n",
            "platforms": [platform],
        },
    }
