"""Where our answer differs from the recorded one, in lines that a person can read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ABSENT: Final = "nothing"
MAX_TEXT: Final = 300


def explain(recorded: object, ours: object, path: str = "") -> Iterator[str]:
    """Yield a line for each place where *ours* is not what was *recorded*."""
    if recorded == ours and type(recorded) is type(ours):
        return
    if isinstance(recorded, dict) and isinstance(ours, dict):
        for key in [*recorded, *(key for key in ours if key not in recorded)]:
            where = f"{path}.{key}" if path else str(key)
            if key not in ours:
                yield f"{where}: recorded {_text(recorded[key])}, ours {ABSENT}"
            elif key not in recorded:
                yield f"{where}: recorded {ABSENT}, ours {_text(ours[key])}"
            else:
                yield from explain(recorded[key], ours[key], where)
    elif isinstance(recorded, list) and isinstance(ours, list) and len(recorded) == len(ours):
        for index, (one, other) in enumerate(zip(recorded, ours, strict=True)):
            yield from explain(one, other, f"{path}[{index}]")
    else:
        yield f"{path or 'answer'}: recorded {_text(recorded)}, ours {_text(ours)}"


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."
