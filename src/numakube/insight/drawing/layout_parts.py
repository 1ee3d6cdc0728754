"""What the parts of a drawing are made of: cells that pods may own, and lines below one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.insight.drawing.drawing_colours import pod_paint
from numakube.insight.drawing.picture import Change
from numakube.insight.drawing.scene import Box, Label, shortened, text_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.drawing.picture import NodePicture
    from numakube.insight.drawing.scene import Item

PADDING: Final = 10.0
CAPTION: Final = 11.0
CELL_RADIUS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Look:
    """How something appears that a pod may own."""

    fill: str
    line: str
    text: str
    letter: str
    classes: str
    data: dict[str, str]
    change: Change

    @classmethod
    def of(cls, picture: NodePicture, owner: int | None, state: str, change: Change) -> Look:
        """Return the look of something in *state*, or of what *owner* has."""
        if owner is not None:
            pod, paint = picture.pods[owner], pod_paint(owner)
            classes = " ".join(filter(None, ("owned", paint, change)))
            return cls(paint, "", "on-pod", pod.letter, classes, {"pod": pod.name}, change)
        text = {"reserved": "on-reserved", "several": "text"}.get(state, "muted")
        classes = " ".join(filter(None, (state, change)))
        return cls(state, "free-line" if state == "free" else "", text, "", classes, {}, change)

    def box(
        self, x: float, y: float, width: float, height: float, *, radius: float = CELL_RADIUS
    ) -> Iterator[Item]:
        """Yield the cell, framed if a plan changes it."""
        if self.change is Change.NONE:
            inset = 0.5 if self.line else 0.0
            yield Box(
                x=x + inset, y=y + inset, width=width - 2 * inset, height=height - 2 * inset,
                fill=self.fill, line=self.line, radius=radius,
            )  # fmt: skip
            return
        yield Box(
            x=x + 1, y=y + 1, width=max(width - 2, 1), height=height - 2, fill=self.fill,
            line=str(self.change), line_width=2, radius=radius,
            dashed=self.change is Change.FREED,
        )  # fmt: skip


class Sheet:
    """Where the next thing goes."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.y = PADDING - 4
        self.items: list[Item] = []

    def label(
        self, text: str, size: float, *, bold: bool = False, anchor: str = "start",
        paint: str = "text",
    ) -> None:  # fmt: skip
        """Add a text at the left or right end of the line."""
        end = anchor == "end"
        self.items.append(
            Label(
                x=PADDING + (self.width if end else 0), y=self.y, text=text, size=size,
                bold=bold, anchor="end" if end else "start", paint=paint,
            )
        )  # fmt: skip

    def caption(self, left: str, right: str) -> None:
        """Add a line with a name and what is to say about it."""
        self.y += CAPTION + 2
        room = self.width - text_width(right, CAPTION) - 6
        self.label(shortened(left, room, CAPTION), CAPTION)
        self.label(right, CAPTION, anchor="end", paint="muted")
        self.y += 5
