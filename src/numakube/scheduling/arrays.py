"""Names for the arrays that nodes are judged with: positions, yes and no, whole numbers."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Rows: TypeAlias = npt.NDArray[np.intp]
"""Positions of nodes in the arrays of a snapshot."""
Mask: TypeAlias = npt.NDArray[np.bool_]
IntArray: TypeAlias = npt.NDArray[np.int64]
