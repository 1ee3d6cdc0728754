"""The image of a release: tagged by its version, so that what is deployed stays as it is."""

from __future__ import annotations

from typing import Final

import numakube

VERSION: Final = numakube.__version__.partition("+")[0]
"""As tags of images and versions of charts allow it: without what a build adds after a plus."""
REPOSITORY: Final = "ghcr.io/numakube/numakube"
IMAGE: Final = f"{REPOSITORY}:{VERSION}"
