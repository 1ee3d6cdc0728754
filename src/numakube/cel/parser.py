"""Reads expressions: the grammar of CEL with optional syntax (``a.?b``, ``a[?b]``).

Refused, although cel-go reads them: messages (``Type{field: value}``), of which Kubernetes has none
that an expression could create.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.cel.cel_errors import CompileError, Issue
from numakube.cel.lexer import RESERVED, Token, tokens_of
from numakube.cel.macros import MacroError, expand, expand_has
from numakube.cel.syntax import (
    Call,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    children,
)

if TYPE_CHECKING:
    from collections.abc import Callable

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
            condition = Call(question.offset, "_?_:_", (condition, yes, self.expression()))
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
            return Call(token.offset, "!_", (self._unary(),))
        if self._accept("-"):
            number = self.here.value
            if isinstance(number, int | float) and not isinstance(number, bool):
                self._take()
                return self._member(Literal(token.offset, -number))
            return Call(token.offset, "-_", (self._unary(),))
        return self._member(self._primary())

    def _member(self, operand: Expr) -> Expr:
        while True:
            if dot := self._accept("."):
                operand = self._selected(operand, dot)
            elif bracket := self._accept("["):
                name = "_[?_]" if self._accept("?") else "_[_]"
                operand = Call(bracket.offset, name, (operand, self.expression()))
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
            return Call(dot.offset, "_?._", (operand, Literal(name.offset, name.text)))
        opening = self._accept("(")
        if not opening:
            return Select(dot.offset, operand, name.text)
        args = self._arguments(")")
        expanded = self._macro(lambda: expand(opening.offset, name.text, operand, args))
        return expanded or Call(opening.offset, name.text, args, operand)

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
        return expanded or Call(opening.offset, name.text, args)

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


def _joined(offset: int, name: str, left: Expr, right: Expr) -> Call:
    """Return the operator over both; a chain of ``&&`` or ``||`` is one call."""
    if name in ("_&&_", "_||_") and isinstance(left, Call) and left.function == name:
        return Call(left.offset, name, (*left.args, right))
    return Call(offset, name, (left, right))
