"""Cuts the text of an expression into tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from numakube.cel.cel_errors import CompileError, Issue
from numakube.cel.values import Uint

_RESERVED_WORDS: Final = (
    "as break const continue else for function if import let loop package namespace return var "
    "void while"
)
RESERVED: Final = frozenset(_RESERVED_WORDS.split())

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n\f]+|//[^\n]*)
  | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<int>0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?)
  | (?P<string>[bB]?[rR]?(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
              |[rR][bB](?:"[^"\n]*"|'[^'\n]*'))
  | (?P<ident>[A-Za-z_][A-Za-z0-9_]*|`[^`\n]+`)
  | (?P<op>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_MAX_DIGITS: Final = 20
_SURROGATES: Final = range(0xD800, 0xE000)
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|([0-3][0-7]{2})"
    r"|(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))"
)
_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text: *kind* is ``op``, ``ident``, ``literal`` or ``end``."""

    kind: str
    text: str
    offset: int
    value: Any = None


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of *text*, closed by one of the kind ``end``."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            message = f"Syntax error: token recognition error at: '{text[at]}'"
            raise CompileError(text, [Issue(at, message)])
        if found.lastgroup != "space":
            tokens.append(_token(text, found))
        at = found.end()
    tokens.append(Token("end", "<EOF>", len(text)))
    return tokens


def _token(text: str, found: re.Match[str]) -> Token:
    part, offset = found.group(), found.start()
    match found.lastgroup:
        case "float":
            return Token("literal", part, offset, float(part))
        case "int":
            return Token("literal", part, offset, _integer(text, part, offset))
        case "string":
            return Token("literal", part, offset, _string(text, part, offset))
        case "ident" if part in _WORDS:
            return Token("literal", part, offset, _WORDS[part])
        case "ident":
            return Token("ident", part.strip("`"), offset)
        case _:
            return Token("op", part, offset)


_WORDS: Final = {"true": True, "false": False, "null": None}


def _integer(text: str, part: str, offset: int) -> int:
    unsigned = part[-1] in "uU"
    hexadecimal = part[:2] in ("0x", "0X")
    digits = part.rstrip("uU")[2 if hexadecimal else 0 :].lstrip("0") or "0"
    too_long = len(digits) > _MAX_DIGITS
    number = 0 if too_long else int(digits, 16 if hexadecimal else 10)
    # The smallest int64 is written with a minus in front, hence one more is let through here.
    if too_long or number > (2**64 - 1 if unsigned else 2**63):
        kind = "uint" if unsigned else "int"
        raise CompileError(text, [Issue(offset, f"Syntax error: invalid {kind} literal")])
    return Uint(number) if unsigned else number


def _string(text: str, part: str, offset: int) -> str | bytes:
    prefix = re.match(r"[bBrR]*", part)
    flags = prefix.group().lower() if prefix else ""
    body = part[len(flags) :]
    body = body[3:-3] if body[:3] in ('"""', "'''") else body[1:-1]
    is_bytes = "b" in flags
    try:
        if "r" not in flags:
            body = _unescaped(body, is_bytes=is_bytes)
        return body.encode("utf-8", "surrogateescape") if is_bytes else body
    except (OverflowError, ValueError):
        raise CompileError(text, [Issue(offset, "Syntax error: invalid escape sequence")]) from None


def _unescaped(body: str, *, is_bytes: bool) -> str:
    """Return *body* with what its escapes stand for; bytes that are no text become surrogates."""
    if "\\" in _ESCAPE.sub("", body):
        raise ValueError(body)
    return _ESCAPE.sub(partial(_escape, is_bytes=is_bytes), body)


def _escape(found: re.Match[str], *, is_bytes: bool) -> str:
    simple, hexadecimal, octal, character = found.groups()
    if simple is not None:
        return _SIMPLE_ESCAPES.get(simple, simple)
    if character is not None:
        code = int(character[1:], 16)
        if is_bytes or code in _SURROGATES:
            raise ValueError(code)
        return chr(code)
    code = int(octal, 8) if hexadecimal is None else int(hexadecimal, 16)
    return bytes([code]).decode("ascii", "surrogateescape") if is_bytes else chr(code)
