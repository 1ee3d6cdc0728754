"""Checks an expression against the types of its variables, before there are any values.

What is found here is what a user finds when creating an object: names and fields that do not
exist, operators and functions for which the operands have the wrong type, constants that cannot be
read. Follows cel-go 0.29 with the options of Kubernetes: list and map literals have elements of one
type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.cel.cel_errors import EvaluationError, Issue
from numakube.cel.costs import PATTERN_FUNCTIONS
from numakube.cel.string_functions import PrintedArgument, compiled, compiled_size, template_pieces
from numakube.cel.syntax import (
    Expr,
    Fold,
    FunctionCall,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    children,
    qualified_name,
)
from numakube.cel.value_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    OVERLOADS,
    STRING,
    UINT,
    Bindings,
    CelType,
    ObjectType,
    Overload,
    is_dyn,
    is_variable,
    list_of,
    map_of,
    more_general,
    optional_of,
)
from numakube.cel.values import Uint, to_duration, to_timestamp
from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


TYPE_NAMES: Final = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"}
    | {"google.protobuf.Timestamp", "google.protobuf.Duration", "optional_type"}
    | {"net.IP", "net.CIDR"}
)
_TYPE: Final = CelType("type")


class Checker:
    """Works out the type of an expression and collects what is wrong with it.

    *overloads* has what each call may turn out to be; *functions* the full names of functions such
    as ``sets.contains``, whose call looks like one of a method.
    """

    def __init__(self, variables: Mapping[str, CelType]) -> None:
        self._variables = dict(variables)
        self._bindings = Bindings()
        self._types: dict[int, CelType] = {}
        self._issues: dict[Issue, None] = {}
        self.overloads: dict[int, tuple[Overload, ...]] = {}
        self.functions: dict[int, str] = {}
        self.type_references: dict[int, str] = {}

    def type_of(self, expr: Expr) -> CelType:
        """Return the type of the whole expression *expr*; dynamic where it is not known."""
        self._check(expr)
        return self.checked_type(expr)

    def checked_type(self, expr: Expr) -> CelType:
        """Return the type that was found for a part of the expression."""
        return self._bindings.resolved(self._types[id(expr)], unknown=DYN)

    def _check(self, expr: Expr) -> CelType:
        # A macro may use one part twice; checking it once is enough.
        found = self._types[id(expr)] = self._found(expr)
        return found

    def _found(self, expr: Expr) -> CelType:
        match expr:
            case Literal():
                return _literal_type(expr.value)
            case Ident():
                return self._ident(expr)
            case Select():
                return self._select(expr)
            case FunctionCall():
                return self._call(expr)
            case ListLiteral():
                return self._list(expr)
            case MapLiteral():
                return self._map(expr)
            case Fold():
                return self._fold(expr)

    def _issue(self, offset: int, message: str) -> CelType:
        self._issues[Issue(offset, message)] = None
        return DYN

    @property
    def issues(self) -> list[Issue]:
        """What is wrong, each once."""
        return list(self._issues)

    def _mismatch(self, offset: int, wanted: CelType, found: CelType) -> CelType:
        shown = [self._bindings.resolved(kind, unknown=DYN) for kind in (wanted, found)]
        return self._issue(offset, f"expected type '{shown[0]}' but found '{shown[1]}'")

    def _ident(self, expr: Ident) -> CelType:
        if expr.name in self._variables:
            return self._variables[expr.name]
        if expr.name in TYPE_NAMES:
            self.type_references[id(expr)] = expr.name
            return _TYPE
        return self._undeclared(expr.offset, expr.name)

    def _undeclared(self, offset: int, name: str) -> CelType:
        return self._issue(offset, f"undeclared reference to '{name}' (in container '')")

    def _select(self, expr: Select) -> CelType:
        name = qualified_name(expr)
        if name in TYPE_NAMES:
            self.type_references[id(expr)] = name
            return _TYPE
        found = self._field(expr.offset, expr.operand, expr.field)
        return BOOL if expr.test else found

    def _field(self, offset: int, operand: Expr, field: str, *, maybe: bool = False) -> CelType:
        kind = self._bindings.resolved(self._check(operand))
        if kind.name == "optional_type":
            kind, maybe = kind.params[0], True
        found = self._member(offset, kind, field)
        return optional_of(found) if maybe else found

    def _member(self, offset: int, kind: CelType, field: str) -> CelType:
        if isinstance(kind, ObjectType):
            return kind.fields.get(field) or self._issue(offset, f"undefined field '{field}'")
        if kind.name == "map":
            return kind.params[1]
        if is_variable(kind):
            self._bindings.fits([DYN], [kind])
        elif not is_dyn(kind):
            self._issue(offset, f"type '{kind}' does not support field selection")
        return DYN

    def _call(self, expr: FunctionCall) -> CelType:
        if expr.function == "_?._":
            operand, field = expr.args
            name = field.value if isinstance(field, Literal) else ""
            return self._field(expr.offset, operand, name, maybe=True)
        args = [self._check(arg) for arg in expr.args]
        if expr.function in ("_&&_", "_||_"):
            return self._logical(expr, args)
        return self._resolved_call(expr, args)

    def _logical(self, expr: FunctionCall, args: list[CelType]) -> CelType:
        for arg, kind in zip(expr.args, args, strict=True):
            if not self._bindings.fits([kind], [BOOL]):
                self._mismatch(arg.offset, BOOL, kind)
        return BOOL

    def _resolved_call(self, expr: FunctionCall, args: list[CelType]) -> CelType:
        function, member = expr.function, expr.target is not None
        if expr.target is not None:
            prefix = qualified_name(expr.target)
            if f"{prefix}.{function}" in OVERLOADS:
                function, member = f"{prefix}.{function}", False
                self.functions[id(expr)] = function
            else:
                args = [self._check(expr.target), *args]
        overloads = OVERLOADS.get(function)
        if overloads is None:
            return self._undeclared(expr.offset, function)
        return self._overload(expr, function, [o for o in overloads if o.member == member], args)

    def _overload(
        self, expr: FunctionCall, function: str, overloads: Sequence[Overload], args: list[CelType]
    ) -> CelType:
        matching: list[Overload] = []
        result: CelType | None = None
        for overload in overloads:
            wanted, found = self._instantiated(overload)
            if not self._bindings.fits(args, wanted):
                continue
            matching.append(overload)
            found = self._bindings.resolved(found)
            result = found if result is None or result == found else DYN
        self.overloads[id(expr)] = tuple(matching)
        if result is None:
            shown = [self._bindings.resolved(kind, unknown=DYN) for kind in args]
            member = expr.target is not None and id(expr) not in self.functions
            return self._issue(expr.offset, _no_overload(function, shown, member=member))
        return result

    def _instantiated(self, overload: Overload) -> tuple[list[CelType], CelType]:
        """Return arguments and result with variables of their own."""
        own: dict[str, CelType] = {}

        def renamed(kind: CelType) -> CelType:
            if is_variable(kind):
                return own.setdefault(kind.name, self._bindings.fresh())
            return CelType(kind.name, tuple(map(renamed, kind.params))) if kind.params else kind

        return [renamed(kind) for kind in overload.args], renamed(overload.result)

    def _list(self, expr: ListLiteral) -> CelType:
        joined: CelType | None = None
        for index, item in enumerate(expr.items):
            kind = self._element(item, maybe=index in expr.optional)
            joined = self._joined(joined, kind)
        return list_of(joined or self._bindings.fresh())

    def _map(self, expr: MapLiteral) -> CelType:
        keys: CelType | None = None
        values: CelType | None = None
        for index, (key, value) in enumerate(expr.entries):
            keys = self._joined(keys, self._check(key))
            kind = self._element(value, maybe=index in expr.optional)
            values = self._joined(values, kind)
        return map_of(keys or self._bindings.fresh(), values or self._bindings.fresh())

    def _element(self, item: Expr, *, maybe: bool) -> CelType:
        kind = self._check(item)
        if not maybe:
            return kind
        kind = self._bindings.resolved(kind)
        if kind.name == "optional_type":
            return kind.params[0]
        if not is_dyn(kind):
            self._mismatch(item.offset, optional_of(kind), kind)
        return kind

    def _joined(self, joined: CelType | None, kind: CelType) -> CelType:
        if joined is None:
            return kind
        if self._bindings.fits([joined], [kind]):
            return more_general(joined, kind)
        # `literal_checks` refuses the mixture, except in the arguments of a template.
        return DYN

    def _fold(self, expr: Fold) -> CelType:
        ranged = self._bindings.resolved(self._check(expr.range))
        start = self._check(expr.start)
        outer = dict(self._variables)
        self._variables[expr.accumulator] = start
        inside = dict(self._variables)
        self._variables |= self._loop_variables(expr, ranged)
        self._require(expr.condition, BOOL)
        self._require(expr.step, start)
        self._variables = inside
        result = self._check(expr.result)
        self._variables = outer
        return self._bindings.resolved(result)

    def _loop_variables(self, expr: Fold, ranged: CelType) -> dict[str, CelType]:
        first, second = DYN, DYN
        if ranged.name in ("list", "map"):
            second = ranged.params[-1]
            first = INT if ranged.name == "list" and expr.second else ranged.params[0]
        elif is_dyn(ranged) or is_variable(ranged):
            self._bindings.fits([DYN], [ranged])
        else:
            self._issue(
                expr.range.offset,
                f"expression of type '{ranged}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
            )
        return {expr.variable: first} | ({expr.second: second} if expr.second else {})

    def _require(self, expr: Expr, wanted: CelType) -> None:
        found = self._check(expr)
        if not self._bindings.fits([wanted], [found]):
            self._mismatch(expr.offset, wanted, found)


def _literal_type(value: object) -> CelType:
    kinds = (
        (bool, BOOL),
        (Uint, UINT),
        (int, INT),
        (float, DOUBLE),
        (str, STRING),
        (bytes, BYTES),
    )
    return next((kind for python, kind in kinds if isinstance(value, python)), NULL)


def _no_overload(function: str, args: list[CelType], *, member: bool) -> str:
    applied = ", ".join(map(str, args[1:] if member else args))
    shown = f"{args[0]}.({applied})" if member else f"({applied})"
    return f"found no matching overload for '{function}' applied to '{shown}'"


# Checks of constants in an expression that is right otherwise (Kubernetes' AST validators).
#
# Durations, timestamps, regular expressions and templates that are constants have to be readable,
# and the elements of a literal have to be of exactly one type.


_CHECKED: Final[dict[str, tuple[int, Callable[[str], object]]]] = {
    "duration": (0, to_duration),
    "timestamp": (0, to_timestamp),
    "matches": (0, compiled),
}
"""Which argument of a function is checked how."""

_MIXED_ALLOWED: Final = "format"
_MOST_INSTRUCTIONS: Final = 25_000
"""Instructions that all constant regular expressions of an expression may be compiled to."""


def literal_issues(tree: Expr, checker: Checker) -> Iterator[Issue]:
    """Yield what is wrong with constants in *tree*."""
    too_large = _too_large(tree)
    if too_large is not None:
        yield too_large
        return
    yield from _issues(tree, checker, mixed=False)


def _too_large(tree: Expr) -> Issue | None:
    """Return the place from which on there is too much to be compiled."""
    left, rest = _MOST_INSTRUCTIONS, [tree]
    while rest:
        node = rest.pop()
        rest.extend(reversed(children(node)))
        if isinstance(node, FunctionCall) and node.function in PATTERN_FUNCTIONS:
            pattern = next(iter(node.args[node.target is None :]), None)
            if isinstance(pattern, Literal) and isinstance(pattern.value, str):
                left -= compiled_size(pattern.value)
                if left < 0:
                    return Issue(pattern.offset, f"invalid {node.function} argument")
    return None


def _issues(tree: Expr, checker: Checker, *, mixed: bool) -> Iterator[Issue]:
    if isinstance(tree, FunctionCall):
        yield from _argument_issues(tree)
        yield from _template_issues(tree, checker)
        mixed = mixed or tree.function == _MIXED_ALLOWED
    elif isinstance(tree, ListLiteral) and not mixed:
        yield from _mixture(tree.items, tree.optional, checker)
    elif isinstance(tree, MapLiteral) and not mixed:
        yield from _mixture(tuple(key for key, _ in tree.entries), frozenset(), checker)
        yield from _mixture(tuple(value for _, value in tree.entries), tree.optional, checker)
    for child in children(tree):
        yield from _issues(child, checker, mixed=mixed)


def _argument_issues(call: FunctionCall) -> Iterator[Issue]:
    if call.function not in _CHECKED:
        return
    index, check = _CHECKED[call.function]
    argument = call.args[index] if len(call.args) > index else None
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        return
    try:
        check(argument.value)
    except (EvaluationError, InvalidValue):
        yield Issue(argument.offset, f"invalid {call.function} argument")


def _template_issues(call: FunctionCall, checker: Checker) -> Iterator[Issue]:
    """Yield what is wrong with a constant template whose arguments are written beside it."""
    template, args = call.target, call.args[0] if call.args else None
    if call.function != _MIXED_ALLOWED or not isinstance(args, ListLiteral):
        return
    if not isinstance(template, Literal) or not isinstance(template.value, str):
        return
    used = 0
    try:
        for piece in template_pieces(template.value, len(args.items)):
            if isinstance(piece, PrintedArgument):
                yield from _clause_issues(piece, args.items[used], checker)
                used += 1
    except EvaluationError as error:
        yield Issue(call.offset, str(error))
        return
    if used < len(args.items):
        problem = (
            f"too many arguments supplied to string.format (expected {used}, got {len(args.items)})"
        )
        yield Issue(call.offset, problem)


def _clause_issues(clause: PrintedArgument, arg: Expr, checker: Checker) -> Iterator[Issue]:
    kind = checker.checked_type(arg)
    if kind.name == "dyn":
        return
    if kind.name not in _PRINTABLE[clause.letter.lower()]:
        yield Issue(arg.offset, f"error during formatting: clause cannot be used on {kind}")
    elif isinstance(arg, ListLiteral | MapLiteral):
        for child in children(arg):
            yield from _clause_issues(clause, child, checker)


_INTEGERS: Final = frozenset({"int", "uint"})
_PRINTABLE: Final = {
    "s": _INTEGERS
    | {"bool", "bytes", "double", "duration", "list", "map", "null", "string", "timestamp", "type"},
    "d": _INTEGERS,
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": _INTEGERS | {"bool"},
    "x": _INTEGERS | {"string", "bytes"},
    "o": _INTEGERS,
}
"""Which types each clause prints."""


def _mixture(
    items: tuple[Expr, ...], optional: frozenset[int], checker: Checker
) -> Iterator[Issue]:
    wanted: CelType | None = None
    for index, item in enumerate(items):
        kind = checker.checked_type(item)
        if index in optional and kind.params:
            kind = kind.params[0]
        if wanted is None:
            wanted = kind
        elif not _equivalent(wanted, kind):
            yield Issue(item.offset, f"expected type '{wanted}' but found '{kind}'")
            return


def _equivalent(one: CelType, other: CelType) -> bool:
    if one.name != other.name or len(one.params) != len(other.params):
        return False
    return all(map(_equivalent, one.params, other.params)) or (is_dyn(one) and is_dyn(other))
