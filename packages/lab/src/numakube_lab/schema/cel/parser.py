"""Reads expressions: the grammar of CEL with its standard macros.

Refused, although cel-go reads them: messages (``Type{field: value}``) and optional syntax
(``a.?b``), which no rule of a custom resource can do much with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.schema.cel.cel_errors import CompileError, Issue
from numakube_lab.schema.cel.lexer import RESERVED, Token, tokens_of
from numakube_lab.schema.cel.syntax import (
    Call,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    Macro,
    MapLiteral,
    Select,
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
_MACROS: Final = {"all": (2,), "exists": (2,), "exists_one": (2,), "filter": (2,), "map": (2, 3)}
# Python itself gives up at about ten times this.
_MAX_DEPTH: Final = 60


def parse(text: str) -> Expr:
    """Return the tree of *text*; raise `CompileError` if it has none."""
    parser = _Parser(text)
    tree = parser.expression()
    if parser.here.kind != "end":
        parser.refuse(f"mismatched input '{parser.here.text}' expecting {_AFTER_OPERAND}")
    return tree


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
            left = Call(token.offset, name, (left, tighter()))
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
            negative = isinstance(number, int | float) and not isinstance(number, bool)
            if self.here.kind == "literal" and negative:
                self._take()
                return self._member(Literal(token.offset, -number))
            return Call(token.offset, "-_", (self._unary(),))
        return self._member(self._primary())

    def _member(self, operand: Expr) -> Expr:
        while True:
            if dot := self._accept("."):
                operand = self._selected(operand, dot)
            elif bracket := self._accept("["):
                operand = Call(bracket.offset, "_[_]", (operand, self.expression()))
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
        if self.here.kind != "ident" and self.here.text not in ("true", "false", "null"):
            self.refuse(f"no viable alternative at input '.{self.here.text}'")
        name = self._take()
        opening = self._accept("(")
        if not opening:
            return Select(dot.offset, operand, name.text)
        return self._method(operand, name.text, opening)

    def _method(self, operand: Expr, name: str, opening: Token) -> Expr:
        args = self._arguments(")")
        if len(args) in _MACROS.get(name, ()):
            variable = args[0]
            if not isinstance(variable, Ident):
                raise CompileError(
                    self._text, [Issue(args[0].offset, "argument must be a simple name")]
                )
            condition = args[1] if len(args) == 3 else None
            return Macro(opening.offset, name, operand, variable.name, args[-1], condition)
        return Call(opening.offset, name, args, operand)

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
            return ListLiteral(token.offset, self._arguments("]"))
        if self._accept("{"):
            return MapLiteral(token.offset, self._entries())
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
        if name.text != "has":
            return Call(opening.offset, name.text, args)
        if len(args) != 1 or not isinstance(args[0], Select):
            offset = args[0].offset if args else opening.offset
            raise CompileError(self._text, [Issue(offset, "invalid argument to has() macro")])
        return Select(opening.offset, args[0].operand, args[0].field, test=True)

    def _entries(self) -> tuple[tuple[Expr, Expr], ...]:
        entries: list[tuple[Expr, Expr]] = []
        while not self._is("}"):
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
            if not self._accept(","):
                break
        self._expect("}")
        return tuple(entries)
