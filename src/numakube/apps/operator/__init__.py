"""The operator: turns two custom resources into exporters and a scheduler.

It looks at what there is, decides in pure functions what is to be done (`exporters_plan`,
`scheduler_plan`), and does it (`plan_executor`). Whatever happened before, a pass over the present
state leads to the same end.

What `__all__` names is public: what annexes need that add to node groups. It is loaded when it is
first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.apps.operator.group_additions import GroupAddition, where_of
    from numakube.apps.operator.node_pools import OperatorPool

__all__ = ["GroupAddition", "OperatorPool", "where_of"]

__getattr__ = lazy_names(
    __name__, {"group_additions": "GroupAddition where_of", "node_pools": "OperatorPool"}
)
