"""What can be wrong with a patch; the API server turns each into its status."""

from __future__ import annotations

from numakube.errors import NumakubeError


class PatchError(NumakubeError):
    """A patch cannot be applied. The message is the one kube-apiserver gives."""


class MalformedPatch(PatchError):
    """The patch itself is malformed: the answer is 400."""


class InapplicablePatch(PatchError):
    """The patch does not fit the document: the answer is 422."""


class PatchFailure(PatchError):
    """kube-apiserver has no better answer than 500 for this patch, so neither has the lab."""


class TooManyOperations(PatchError):
    """A JSON patch with more operations than the server takes: 413."""
