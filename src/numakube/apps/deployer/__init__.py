"""Deploys components onto a cluster without an operator, and removes them.

What was deployed carries a label, so that removing it touches nothing else: a namespace or a kind
that was there before stays.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.apps.deployer.apply_and_remove import DeployEngine

__all__ = [
    "DeployEngine",
]

__getattr__ = lazy_names(
    __name__,
    {
        "apply_and_remove": "DeployEngine",
    },
)
