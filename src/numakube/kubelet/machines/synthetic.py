"""Machines in one line: ``2 sockets, 2 numa each, 8 cores, smt 2, 64Gi, gpu 2, nic 4``.

The notation is described in `shape_parse`. Reading and writing are exact: a machine that the
notation cannot express is refused, never approximated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.kubelet.machines.presets import PRESETS
from numakube.kubelet.machines.shape_build import build
from numakube.kubelet.machines.shape_infer import infer
from numakube.kubelet.machines.shape_parse import parse
from numakube.kubelet.machines.shape_print import print_shape

if TYPE_CHECKING:
    from numakube.kubelet.machine import Machine


def from_shape(text: str) -> Machine:
    """Return the machine that *text* describes: a shape, a preset, or a preset with changes.

    Raises:
        InvalidValue: with the column and the clause at fault.
    """
    return build(parse(text, presets=PRESETS))


def to_shape(machine: Machine) -> str:
    """Return the one line from which `from_shape` makes *machine*.

    Raises:
        InvalidValue: the machine is not regular enough; the message says where.
    """
    return print_shape(infer(machine))
