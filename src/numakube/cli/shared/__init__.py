"""What commands share: their options, the objects that they name, and how they print.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.cli.shared.kubectl_names import ObjectName
    from numakube.cli.shared.machine_argument import MachineParameter, load_machine, read_bytes
    from numakube.cli.shared.terminal import print_drawing

__all__ = [
    "MachineParameter",
    "ObjectName",
    "load_machine",
    "print_drawing",
    "read_bytes",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kubectl_names": "ObjectName",
        "machine_argument": "MachineParameter load_machine read_bytes",
        "terminal": "print_drawing",
    },
)
