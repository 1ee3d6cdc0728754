"""Regular expressions of Go (RE2), translated into those of Python.

Go refuses what RE2 cannot do in linear time: references to groups, and looking ahead or behind.
Engines of Python backtrack instead, and may need ages, as for ``^(a|aa)+$``. The ``regex`` library
gives up after a while, so that an expression in an object cannot stop a program.
Known differences that remain: Unicode classes other than letters and digits, and ``(?U)``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import regex

from numakube.errors import InvalidValue

MATCH_SECONDS: Final = 0.2
"""How long a match may take; ordinary ones take microseconds."""

_POSIX: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7F", "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F", "digit": "0-9", "graph": "!-~", "lower": "a-z",
    "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ", "upper": "A-Z",
    "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_CLASSES: Final = {
    "d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r ",
}  # fmt: skip
_GROUP: Final = re.compile(r"\((?:\?(?:P?<[A-Za-z_]\w*>|[imsU]*(?:-[imsU]+)?[:)]|:))?")
_REPEAT: Final = re.compile(r"[*+?]\??|\{\d+(?:,\d*)?\}\??")
_PROPERTY: Final = re.compile(r"\{\^?(\w+)\}|(\w)")


class Pattern:
    """A pattern that finds what Go's would."""

    def __init__(self, text: str) -> None:
        """Compile *text*.

        Raises:
            InvalidValue: Go refuses it.
        """
        self._text = text
        try:
            self._compiled: Any = regex.compile(_Translation(text).run())
        except regex.error as error:
            raise InvalidValue(f"error parsing regexp: {error}: `{text}`") from None

    def first(self, text: str) -> str | None:
        """Return the first part of *text* that matches; None if none does.

        Raises:
            InvalidValue: it takes too long to find out.
        """
        try:
            found = self._compiled.search(text, timeout=MATCH_SECONDS)
        except TimeoutError:
            raise self._too_long() from None
        return None if found is None else str(found.group())

    def all(self, text: str) -> list[str]:
        """Return the parts of *text* that match, one after the other.

        Raises:
            InvalidValue: it takes too long to find them.
        """
        try:
            return [one.group() for one in self._compiled.finditer(text, timeout=MATCH_SECONDS)]
        except TimeoutError:
            raise self._too_long() from None

    def _too_long(self) -> InvalidValue:
        return InvalidValue(f"regexp takes too long to match: `{self._text}`")


@lru_cache(maxsize=512)
def compiled(text: str) -> Pattern:
    """Return the pattern that finds what Go's would; raise `InvalidValue` if Go refuses it."""
    return Pattern(text)


class _Translation:
    """Reads a pattern from left to right and writes Python's."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._multiline = False

    def run(self) -> str:
        out: list[str] = []
        while self._at < len(self._text):
            out.append(self._next())
        return "".join(out)

    def _refuse(self, reason: str) -> InvalidValue:
        return InvalidValue(f"error parsing regexp: {reason}: `{self._text}`")

    def _take(self, count: int = 1) -> str:
        part = self._text[self._at : self._at + count]
        self._at += count
        return part

    def _next(self) -> str:
        char = self._text[self._at]
        match char:
            case "\\":
                return self._escape(in_class=False)
            case "[":
                return self._class()
            case "(":
                return self._group()
            case "$":
                self._take()
                return "$" if self._multiline else r"\Z"
            case "*" | "+" | "?" | "{":
                return self._repeat()
            case _:
                return self._take()

    def _repeat(self) -> str:
        found = _REPEAT.match(self._text, self._at)
        if found is None:
            return "\\" + self._take()
        self._at = found.end()
        if _REPEAT.match(self._text, self._at):
            raise self._refuse("invalid nested repetition operator")
        if found.group() in ("*", "+", "?") and found.start() == 0:
            raise self._refuse("missing argument to repetition operator")
        return found.group()

    def _group(self) -> str:
        found = _GROUP.match(self._text, self._at)
        if found is None or (found.group() == "(" and self._text.startswith("(?", self._at)):
            raise self._refuse("invalid or unsupported Perl syntax")
        self._at = found.end()
        group = found.group()
        if group.startswith("(?<"):
            return f"(?P{group[2:]}"
        flags = group[2:-1]
        if group.startswith("(?") and group[-1] in ":)" and "P" not in flags:
            self._multiline = self._multiline or "m" in flags.partition("-")[0]
            flags = flags.replace("U", "")
            # Flags in the middle hold for the rest; Python wants a group for that.
            rest = self.run() if group[-1] == ")" else ""
            if group[-1] == ")":
                return f"(?{flags}:{rest})" if flags else rest
            return f"(?{flags}:"
        return group

    def _escape(self, *, in_class: bool) -> str:
        self._take()
        if self._at >= len(self._text):
            raise self._refuse("trailing backslash at end of expression")
        char = self._take()
        if char in "dws":
            return _CLASSES[char] if in_class else f"[{_CLASSES[char]}]"
        if char in "DWS":
            if in_class:
                return {"D": r"\D", "W": r"\W", "S": r"\S"}[char]
            return f"[^{_CLASSES[char.lower()]}]"
        if char in "pP":
            return self._property(char)
        return self._other_escape(char, in_class=in_class)

    def _other_escape(self, char: str, *, in_class: bool) -> str:
        if char == "z" and not in_class:
            return r"\Z"
        if char in "AbB" and not in_class:
            return {"A": r"\A", "b": r"(?a:\b)", "B": r"(?a:\B)"}[char]
        if char in "afnrtv":
            return f"\\{char}"
        if char == "x":
            return self._hex()
        if char == "Q" and not in_class:
            literal, _, _ = self._text[self._at :].partition(r"\E")
            self._at += len(literal) + (2 if r"\E" in self._text[self._at :] else 0)
            return re.escape(literal)
        if char == "0" or (char in "1234567" and self._text[self._at : self._at + 1] in "01234567"):
            return self._octal(char)
        if char.isalnum():
            raise self._refuse("invalid escape sequence")
        return re.escape(char)

    def _octal(self, first: str) -> str:
        digits = re.match(r"[0-7]{0,2}", self._text[self._at :])
        found = first + (digits.group() if digits else "")
        if len(found) == 1 and first != "0":
            raise self._refuse("invalid escape sequence")
        self._at += len(found) - 1
        return re.escape(chr(int(found, 8)))

    def _hex(self) -> str:
        found = re.match(r"\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2})", self._text[self._at :])
        if found is None:
            raise self._refuse("invalid escape sequence")
        self._at += found.end()
        return re.escape(chr(int(found[1] or found[2], 16)))

    def _property(self, char: str) -> str:
        found = _PROPERTY.match(self._text, self._at)
        name = (found[1] or found[2]) if found else ""
        known = {"L": r"[^\W\d_]", "N": r"\d", "Nd": r"\d"}
        if found is None or name not in known or char == "P":
            raise self._refuse("invalid character class range")
        self._at = found.end()
        return known[name]

    def _class(self) -> str:
        out = [self._take()]
        if self._text.startswith("^", self._at):
            out.append(self._take())
        first = True
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == "]" and not first:
                return "".join((*out, self._take()))
            first = False
            out.append(self._class_part(char))
        raise self._refuse("missing closing ]")

    def _class_part(self, char: str) -> str:
        posix = re.match(r"\[:(\^?)(\w+):\]", self._text[self._at :])
        if posix is not None and posix[2] in _POSIX and not posix[1]:
            self._at += posix.end()
            return _POSIX[posix[2]]
        if char == "\\":
            return self._escape(in_class=True)
        self._take()
        return f"\\{char}" if char in "[]&~|" else char
