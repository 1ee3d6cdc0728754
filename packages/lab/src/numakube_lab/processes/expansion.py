"""References to variables in commands, arguments and values: ``$(NAME)``.

What is not known stays as it is, and ``$$`` stands for a dollar sign, as in Kubernetes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE: Final = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expand(text: str, known: Mapping[str, str]) -> str:
    """Return *text* with references to *known* variables replaced.

    >>> expand("--node=$(NODE) $(OTHER) $$(NODE)", {"NODE": "n1"})
    '--node=n1 $(OTHER) $(NODE)'
    """

    def replaced(match: re.Match[str]) -> str:
        dollar, name = match.groups()
        return "$" if dollar else known.get(name, match[0])

    return _REFERENCE.sub(replaced, text)
