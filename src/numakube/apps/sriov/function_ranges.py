"""``<PF>#<ranges>``: a physical function, and maybe some of its virtual ones.

The ranges are numbers and spans of numbers, both ends included: ``ens1f0#0,3-5``. Text is read from
left to right, and what comes before a mistake counts; the rest selects nothing. This is what the
SR-IOV network device plugin does, which prints the mistake for every device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from numakube.errors import InvalidValue
from numakube.values.gotext import parse_integer

_MARK: Final = "#"
_PARTS: Final = 2


@dataclass(frozen=True, slots=True)
class PfPattern:
    """A physical function by its name or address, and which of its functions are meant.

    Attributes:
        text: as it was written.
        key: name or address.
        spans: first and last number of each range; ``None`` means all functions.
        mistake: what is wrong with the text; empty if it is right.
    """

    text: str
    key: str
    spans: tuple[tuple[int, int], ...] | None = None
    mistake: str = ""

    def is_for(self, pf: str) -> bool:
        """Tell whether *pf* is meant, in whatever case."""
        return self.key.casefold() == pf.casefold()

    def selects(self, index: int | None) -> bool:
        """Tell whether the function of this number is meant; ``None`` has no number."""
        if self.spans is None:
            return True
        number = -1 if index is None else index
        return any(first <= number <= last for first, last in self.spans)


def parse_pattern(text: str) -> PfPattern:
    """Return the pattern that *text* stands for; it lists mistakes."""
    key, *rest = text.split(_MARK)
    if not rest:
        return PfPattern(text, key)
    if len(rest) > 1:
        return PfPattern(text, key, (), f"more than one {_MARK!r}")
    spans: list[tuple[int, int]] = []
    for item in rest[0].split(","):
        try:
            spans.append(_span(item))
        except InvalidValue as error:
            return PfPattern(text, key, tuple(spans), str(error))
    return PfPattern(text, key, tuple(spans))


def _span(item: str) -> tuple[int, int]:
    ends = item.split("-")
    if len(ends) > _PARTS:
        raise InvalidValue(f"{item!r} is not a range such as 0-3")
    try:
        numbers = [parse_integer(end) for end in ends]
    except InvalidValue:
        raise InvalidValue(f"{item!r} is not a number or a range such as 0-3") from None
    return numbers[0], numbers[-1]
