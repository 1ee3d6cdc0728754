"""Dynamic Resource Allocation: which devices claims get, exactly as in kube-scheduler. Pure.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.dra.extended_resources import classes_by_resource
    from numakube.dra.pod_claims import named_claims, used_claims

__all__ = [
    "classes_by_resource",
    "named_claims",
    "used_claims",
]

__getattr__ = lazy_names(
    __name__,
    {
        "pod_claims": "named_claims used_claims",
        "extended_resources": "classes_by_resource",
    },
)
