"""Reads expressions: tokens, the grammar of CEL with optional syntax (``a.?b``, ``a[?b]``), macros.

Refused, although cel-go reads them: messages (``Type{field: value}``), of which Kubernetes has none
that an expression could create.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from numakube.cel.cel_errors import CompileError, Issue
from numakube.cel.syntax import (
    ACCUMULATOR,
    Expr,
    Fold,
    FunctionCall,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    children,
)
from numakube.cel.values import Uint
from numakube.errors import NumakubeError

if TYPE_CHECKING:
    from collections.abc import Callable


# Cuts the text of an expression into tokens.


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


# Macros: calls that stand for a loop, a binding or a test, and are replaced when they are read.
#
# Follows cel-go 0.29: the standard macros, those with two variables, ``cel.bind``, ``sortBy``,
# ``optMap`` and ``optFlatMap``. What they become decides what an evaluation costs.


_SORTED: Final = "@__sortBy_input__"


class MacroError(NumakubeError):
    """A macro that was written wrongly."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.issue = Issue(offset, message)


def expand(offset: int, name: str, target: Expr, args: tuple[Expr, ...]) -> Expr | None:
    """Return what ``target.name(args)`` stands for; None if it is an ordinary call."""
    if name == "bind" and isinstance(target, Ident) and target.name == "cel" and len(args) == 3:
        return _bind(offset, _name(args[0]), args[1], args[2])
    macro = _MACROS.get((name, len(args)))
    return None if macro is None else macro(offset, target, args)


def expand_has(offset: int, args: tuple[Expr, ...]) -> Expr:
    """Return what ``has(a.b)`` stands for."""
    if len(args) != 1 or not isinstance(args[0], Select):
        raise MacroError(args[0].offset if args else offset, "invalid argument to has() macro")
    return Select(offset, args[0].operand, args[0].field, test=True)


def _name(expr: Expr) -> str:
    if not isinstance(expr, Ident) or expr.name == ACCUMULATOR:
        raise MacroError(expr.offset, "argument must be a simple name")
    return expr.name


def _names(one: Expr, other: Expr) -> tuple[str, str]:
    first, second = _name(one), _name(other)
    if first == second:
        raise MacroError(other.offset, f"duplicate variable name: {first}")
    return first, second


def _bind(offset: int, name: str, value: Expr, body: Expr) -> Fold:
    nothing, no = ListLiteral(offset, ()), Literal(offset, False)
    return Fold(offset, nothing, "#unused", None, name, value, no, Ident(offset, name), body)


def _all(offset: int, body: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    so_far = Ident(offset, ACCUMULATOR)
    go_on = FunctionCall(offset, "@not_strictly_false", (so_far,))
    return Literal(offset, True), go_on, FunctionCall(offset, "_&&_", (so_far, body)), so_far


def _exists(offset: int, body: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    so_far = Ident(offset, ACCUMULATOR)
    go_on = FunctionCall(offset, "@not_strictly_false", (FunctionCall(offset, "!_", (so_far,)),))
    return Literal(offset, False), go_on, FunctionCall(offset, "_||_", (so_far, body)), so_far


def _exists_one(offset: int, body: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    so_far, one = Ident(offset, ACCUMULATOR), Literal(offset, 1)
    step = FunctionCall(offset, "_?_:_", (body, FunctionCall(offset, "_+_", (so_far, one)), so_far))
    return (
        Literal(offset, 0),
        Literal(offset, True),
        step,
        FunctionCall(offset, "_==_", (so_far, one)),
    )


def _collect(
    offset: int, start: Expr, step: Expr, condition: Expr | None
) -> tuple[Expr, Expr, Expr, Expr]:
    so_far = Ident(offset, ACCUMULATOR)
    if condition is not None:
        step = FunctionCall(offset, "_?_:_", (condition, step, so_far))
    return start, Literal(offset, True), step, so_far


def _appended(offset: int, item: Expr) -> Expr:
    return FunctionCall(offset, "_+_", (Ident(offset, ACCUMULATOR), ListLiteral(offset, (item,))))


def _one_variable(
    loop: Callable[[int, Expr], tuple[Expr, Expr, Expr, Expr]],
) -> Callable[[int, Expr, tuple[Expr, ...]], Expr]:
    def expanded(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
        start, condition, step, result = loop(offset, args[1])
        name = _name(args[0])
        return Fold(offset, target, name, None, ACCUMULATOR, start, condition, step, result)

    return expanded


def _two_variables(
    loop: Callable[[int, Expr], tuple[Expr, Expr, Expr, Expr]],
) -> Callable[[int, Expr, tuple[Expr, ...]], Expr]:
    def expanded(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
        start, condition, step, result = loop(offset, args[2])
        first, second = _names(args[0], args[1])
        return Fold(offset, target, first, second, ACCUMULATOR, start, condition, step, result)

    return expanded


def _map(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    condition = args[1] if len(args) == 3 else None
    parts = _collect(offset, ListLiteral(offset, ()), _appended(offset, args[-1]), condition)
    return Fold(offset, target, _name(args[0]), None, ACCUMULATOR, *parts)


def _filter(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    name = _name(args[0])
    kept = _appended(offset, Ident(args[0].offset, name))
    parts = _collect(offset, ListLiteral(offset, ()), kept, args[1])
    return Fold(offset, target, name, None, ACCUMULATOR, *parts)


def _transform_list(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    first, second = _names(args[0], args[1])
    condition = args[2] if len(args) == 4 else None
    parts = _collect(offset, ListLiteral(offset, ()), _appended(offset, args[-1]), condition)
    return Fold(offset, target, first, second, ACCUMULATOR, *parts)


def _transform_map(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    first, second = _names(args[0], args[1])
    condition = args[2] if len(args) == 4 else None
    inserted = (Ident(offset, ACCUMULATOR), Ident(offset, first), args[-1])
    step = FunctionCall(offset, "cel.@mapInsert", inserted)
    parts = _collect(offset, MapLiteral(offset, ()), step, condition)
    return Fold(offset, target, first, second, ACCUMULATOR, *parts)


def _transform_entry(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    first, second = _names(args[0], args[1])
    condition = args[2] if len(args) == 4 else None
    step = FunctionCall(offset, "cel.@mapInsert", (Ident(offset, ACCUMULATOR), args[-1]))
    parts = _collect(offset, MapLiteral(offset, ()), step, condition)
    return Fold(offset, target, first, second, ACCUMULATOR, *parts)


def _sort_by(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    if isinstance(target, Literal | MapLiteral):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"  # noqa: E501
        raise MacroError(target.offset, message)
    items = Ident(offset, _SORTED)
    keys = _map(offset, items, args)
    return _bind(
        offset, _SORTED, target, FunctionCall(offset, "@sortByAssociatedKeys", (keys,), items)
    )


def _opt_map(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    return _if_present(
        offset, target, args, lambda value: FunctionCall(offset, "optional.of", (value,))
    )


def _opt_flat_map(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    return _if_present(offset, target, args, lambda value: value)


def _if_present(
    offset: int, target: Expr, args: tuple[Expr, ...], then: Callable[[Expr], Expr]
) -> Expr:
    bound = _bind(offset, _name(args[0]), FunctionCall(offset, "value", (), target), args[1])
    present = FunctionCall(offset, "hasValue", (), target)
    return FunctionCall(
        offset, "_?_:_", (present, then(bound), FunctionCall(offset, "optional.none", ()))
    )


_MACROS: Final[dict[tuple[str, int], Callable[[int, Expr, tuple[Expr, ...]], Expr]]] = {
    ("all", 2): _one_variable(_all),
    ("exists", 2): _one_variable(_exists),
    ("exists_one", 2): _one_variable(_exists_one),
    ("existsOne", 2): _one_variable(_exists_one),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("all", 3): _two_variables(_all),
    ("exists", 3): _two_variables(_exists),
    ("exists_one", 3): _two_variables(_exists_one),
    ("existsOne", 3): _two_variables(_exists_one),
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_entry,
    ("transformMapEntry", 4): _transform_entry,
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
}


_OPERANDS: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
    "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_AFTER_OPERAND: Final = (
    "{<EOF>, '==', '!=', 'in', '<', '<=', '>=', '>', '&&', '||', "
    "'[', '.', '-', '?', '+', '*', '/', '%'}"
)
_RELATIONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
# Python itself gives up at about ten times this.
_MAX_DEPTH: Final = 60
MAX_LENGTH: Final = 100_000
"""Characters of an expression, as in cel-go."""
MAX_HEIGHT: Final = 160
"""Levels of a tree. cel-go has 250; checking the types of one takes four levels of Python."""
MAX_NODES: Final = 20_000
"""Nodes of a tree, more than ten thousand characters can have unless macros repeat parts."""


def parse(text: str) -> Expr:
    """Return the tree of *text*; raise `CompileError` if it has none."""
    if len(text) > MAX_LENGTH:
        problem = f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_LENGTH}"
        raise CompileError("", [Issue(0, problem)])
    parser = _Parser(text)
    tree = parser.expression()
    if parser.here.kind != "end":
        parser.refuse(f"mismatched input '{parser.here.text}' expecting {_AFTER_OPERAND}")
    _check_shape(text, tree)
    return tree


def _check_shape(text: str, tree: Expr) -> None:
    """Refuse a tree that is too high or too big.

    Chains such as ``a + b + c`` grow without nesting, and some macros use a part twice, whose parts
    do the same: nodes are counted as often as they are used.
    """
    rest = [(tree, 1)]
    count = 0
    while rest:
        node, height = rest.pop()
        count += 1
        if height > MAX_HEIGHT or count > MAX_NODES:
            limit = "recursion" if height > MAX_HEIGHT else "size"
            problem = f"Syntax error: expression {limit} limit exceeded"
            raise CompileError(text, [Issue(node.offset, problem)])
        rest.extend((child, height + 1) for child in children(node))


class _Parser:
    """Descends from the loosest operator to the tightest."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._at = 0
        self._depth = 0

    @property
    def here(self) -> Token:
        """The next token."""
        return self._tokens[self._at]

    def refuse(self, message: str, token: Token | None = None) -> None:
        """Raise the error at *token*, or at the next one."""
        offset = (token or self.here).offset
        raise CompileError(self._text, [Issue(offset, f"Syntax error: {message}")])

    def _take(self) -> Token:
        token = self.here
        self._at += 1
        return token

    def _is(self, *texts: str) -> bool:
        return self.here.kind in ("op", "ident") and self.here.text in texts

    def _accept(self, text: str) -> Token | None:
        return self._take() if self._is(text) else None

    def _expect(self, text: str) -> Token:
        if not self._is(text):
            self.refuse(f"mismatched input '{self.here.text}' expecting '{text}'")
        return self._take()

    def expression(self) -> Expr:
        """``condition ? yes : no``, or anything tighter."""
        self._descend()
        condition = self._binary(self._and, ("||",))
        if question := self._accept("?"):
            yes = self._binary(self._and, ("||",))
            self._expect(":")
            condition = FunctionCall(question.offset, "_?_:_", (condition, yes, self.expression()))
        self._depth -= 1
        return condition

    def _descend(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self.refuse("expression recursion limit exceeded")

    def _and(self) -> Expr:
        return self._binary(self._relation, ("&&",))

    def _relation(self) -> Expr:
        return self._binary(self._sum, tuple(_RELATIONS))

    def _sum(self) -> Expr:
        return self._binary(self._product, ("+", "-"))

    def _product(self) -> Expr:
        return self._binary(self._unary, ("*", "/", "%"))

    def _binary(self, tighter: Callable[[], Expr], operators: tuple[str, ...]) -> Expr:
        left = tighter()
        while self._is(*operators):
            token = self._take()
            name = "@in" if token.text == "in" else f"_{token.text}_"
            left = _joined(token.offset, name, left, tighter())
        return left

    def _unary(self) -> Expr:
        self._descend()
        operand = self._signed()
        self._depth -= 1
        return operand

    def _signed(self) -> Expr:
        token = self.here
        if self._accept("!"):
            return FunctionCall(token.offset, "!_", (self._unary(),))
        if self._accept("-"):
            number = self.here.value
            if isinstance(number, int | float) and not isinstance(number, bool):
                self._take()
                return self._member(Literal(token.offset, -number))
            return FunctionCall(token.offset, "-_", (self._unary(),))
        return self._member(self._primary())

    def _member(self, operand: Expr) -> Expr:
        while True:
            if dot := self._accept("."):
                operand = self._selected(operand, dot)
            elif bracket := self._accept("["):
                name = "_[?_]" if self._accept("?") else "_[_]"
                operand = FunctionCall(bracket.offset, name, (operand, self.expression()))
                self._expect("]")
            else:
                return self._checked_literal(operand)

    def _checked_literal(self, operand: Expr) -> Expr:
        value = operand.value if isinstance(operand, Literal) else None
        if type(value) is int and value == 2**63:
            raise CompileError(
                self._text, [Issue(operand.offset, "Syntax error: invalid int literal")]
            )
        return operand

    def _selected(self, operand: Expr, dot: Token) -> Expr:
        maybe = self._accept("?")
        if self.here.kind != "ident" and self.here.text not in ("true", "false", "null"):
            self.refuse(f"no viable alternative at input '.{self.here.text}'")
        name = self._take()
        if maybe:
            return FunctionCall(dot.offset, "_?._", (operand, Literal(name.offset, name.text)))
        opening = self._accept("(")
        if not opening:
            return Select(dot.offset, operand, name.text)
        args = self._arguments(")")
        expanded = self._macro(lambda: expand(opening.offset, name.text, operand, args))
        return expanded or FunctionCall(opening.offset, name.text, args, operand)

    def _macro(self, make: Callable[[], Expr | None]) -> Expr | None:
        try:
            return make()
        except MacroError as error:
            raise CompileError(self._text, [error.issue]) from None

    def _arguments(self, end: str) -> tuple[Expr, ...]:
        args: list[Expr] = []
        while not self._is(end):
            args.append(self.expression())
            if not self._accept(","):
                break
        self._expect(end)
        return tuple(args)

    def _primary(self) -> Expr:
        token = self.here
        if token.kind == "literal":
            self._take()
            return Literal(token.offset, token.value)
        if token.kind == "ident":
            return self._name()
        if self._accept("("):
            inner = self.expression()
            self._expect(")")
            return inner
        if self._accept("["):
            return self._list(token)
        if self._accept("{"):
            return self._map(token)
        if self._accept("."):
            return self._name()
        self.refuse(f"mismatched input '{token.text}' expecting {_OPERANDS}")
        raise AssertionError(token)

    def _name(self) -> Expr:
        token = self._take()
        if token.kind != "ident" or token.text == "in":
            self.refuse(f"mismatched input '{token.text}' expecting {_OPERANDS}", token)
        if token.text in RESERVED:
            raise CompileError(
                self._text,
                [Issue(token.offset, f"Syntax error: reserved identifier: {token.text}")],
            )
        if opening := self._accept("("):
            return self._function(token, opening)
        return Ident(token.offset, token.text)

    def _function(self, name: Token, opening: Token) -> Expr:
        args = self._arguments(")")
        expanded = None
        if name.text == "has":
            expanded = self._macro(lambda: expand_has(opening.offset, args))
        return expanded or FunctionCall(opening.offset, name.text, args)

    def _list(self, opening: Token) -> Expr:
        items: list[Expr] = []
        optional: set[int] = set()
        while not self._is("]"):
            if self._accept("?"):
                optional.add(len(items))
            items.append(self.expression())
            if not self._accept(","):
                break
        self._expect("]")
        return ListLiteral(opening.offset, tuple(items), frozenset(optional))

    def _map(self, opening: Token) -> Expr:
        entries: list[tuple[Expr, Expr]] = []
        optional: set[int] = set()
        while not self._is("}"):
            if self._accept("?"):
                optional.add(len(entries))
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
            if not self._accept(","):
                break
        self._expect("}")
        return MapLiteral(opening.offset, tuple(entries), frozenset(optional))


def _joined(offset: int, name: str, left: Expr, right: Expr) -> FunctionCall:
    """Return the operator over both; a chain of ``&&`` or ``||`` is one call."""
    if name in ("_&&_", "_||_") and isinstance(left, FunctionCall) and left.function == name:
        return FunctionCall(left.offset, name, (*left.args, right))
    return FunctionCall(offset, name, (left, right))
