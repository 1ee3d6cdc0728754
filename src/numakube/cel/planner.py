"""Turns a checked tree into functions that evaluate it, and count what the evaluation costs.

Follows cel-go's planner and runtime cost tracker (0.29) as Kubernetes configures them: literals of
constants and conversions of constants are computed once and cost nothing; a name and each step of
a path behind it cost one; a test for presence is free; calls cost what `numakube.cel.costs` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from numakube.cel.attributes import Attribute, Constant, Frame, Step, conditional
from numakube.cel.call_work import PATTERN_FUNCTIONS, matching, work_of
from numakube.cel.cel_errors import EvaluationError
from numakube.cel.costs import call_cost
from numakube.cel.evaluation_meter import ERROR_WORK, MOST_WORK, UNLIMITED, Meter
from numakube.cel.function_table import CONVERSIONS, LAZY, function_of
from numakube.cel.syntax import (
    Call,
    Expr,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
)
from numakube.cel.values import (
    CelValue,
    Growing,
    GrowingMap,
    Optional,
    TypeValue,
    no_overload,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.cel.call_work import Work
    from numakube.cel.checker import Checker
    from numakube.cel.costs import Cost

LIST_COST: Final = 10
MAP_COST: Final = 30


class Planner:
    """Plans the parts of one checked expression."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker

    def plan(self, expr: Expr) -> Step:
        """Return the function that evaluates *expr*."""
        match expr:
            case Literal():
                return Constant(expr.value)
            case Ident() | Select():
                return self._path(expr)
            case Call():
                return self._call(expr)
            case ListLiteral():
                return self._list(expr)
            case MapLiteral():
                return self._map(expr)
            case Fold():
                return self._fold(expr)

    def _path(self, expr: Ident | Select) -> Step:
        reference = self._checker.type_references.get(id(expr))
        if reference is not None:
            return Constant(TypeValue(reference))
        if isinstance(expr, Ident):
            return Attribute.of_name(expr.name)
        operand = Attribute.over(self.plan(expr.operand))
        return operand.tested(expr.field) if expr.test else operand.indexed(Constant(expr.field))

    def _call(self, expr: Call) -> Step:
        function = self._checker.functions.get(id(expr), expr.function)
        own = id(expr) in self._checker.functions or expr.target is None
        args = [self.plan(arg) for arg in ((*expr.args,) if own else (expr.target, *expr.args))]  # type: ignore[arg-type]
        match function:
            case "_&&_" | "_||_":
                return _decided(args, stop=function == "_||_")
            case "_?_:_":
                return conditional(*args)
            case "_[_]" | "_[?_]" | "_?._":
                maybe = function != "_[_]"
                return Attribute.over(args[0]).indexed(args[1], maybe=maybe)
            case _:
                return self._function(expr, function, args)

    def _function(self, expr: Call, function: str, args: list[Step]) -> Step:
        if function in LAZY:
            return LAZY[function](*args)
        overloads = self._checker.overloads.get(id(expr), ())
        if function == "@in" and (member := _membership(overloads, args)) is not None:
            return member
        if function == "@not_strictly_false":
            return _not_strictly_false(args[0])
        act = function_of(function, overloads)
        cost = call_cost(function, overloads[0].text if len(overloads) == 1 else "")
        if function in CONVERSIONS and len(args) == 1 and isinstance(args[0], Constant):
            return Constant(act(args[0].value))
        work = work_of(function, map(self._checker.checked_type, expr.args))
        if work is not None and function in PATTERN_FUNCTIONS and isinstance(args[1], Constant):
            work = matching(args[1].value)
        return _applied(act, cost, args) if work is None else _working(act, cost, work, args)

    def _list(self, expr: ListLiteral) -> Step:
        items = [self.plan(item) for item in expr.items]

        def made(frame: Frame) -> CelValue:
            return list(_present(items, expr.optional, frame))

        if all(isinstance(item, Constant) for item in items):
            return Constant(made(_unmetered()))
        return _costing(made, LIST_COST, len(items))

    def _map(self, expr: MapLiteral) -> Step:
        keys = [self.plan(key) for key, _ in expr.entries]
        values = [self.plan(value) for _, value in expr.entries]

        def made(frame: Frame) -> CelValue:
            return _entries(keys, values, expr.optional, frame)

        if all(isinstance(part, Constant) for part in (*keys, *values)):
            return Constant(made(_unmetered()))
        return _costing(made, MAP_COST, len(keys))

    def _fold(self, expr: Fold) -> Step:
        ranged, start, condition, step, result = (
            self.plan(part)
            for part in (expr.range, expr.start, expr.condition, expr.step, expr.result)
        )
        if isinstance(condition, Constant) and condition.value is False:
            return _bound(expr.accumulator, start, result)
        return _loop(expr, ranged, start, condition, step, result)


def _costing(made: Step, cost: int, size: int) -> Step:
    def step(frame: Frame) -> CelValue:
        frame.meter.spend(size)
        try:
            return made(frame)
        finally:
            frame.charge(cost)

    return step


def _present(items: list[Step], optional: frozenset[int], frame: Frame) -> Iterable[CelValue]:
    for index, item in enumerate(items):
        value = item(frame)
        if index not in optional:
            yield value
        elif not isinstance(value, Optional):
            raise EvaluationError(
                f"cannot initialize optional list element from non-optional value {value}"
            )
        elif value.present:
            yield value.value


def _entries(
    keys: list[Step], values: list[Step], optional: frozenset[int], frame: Frame
) -> dict[Any, Any]:
    entries: dict[Any, Any] = {}
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        name, found = key(frame), value(frame)
        if index in optional:
            if not isinstance(found, Optional):
                raise EvaluationError(
                    f"cannot initialize optional entry '{name}' from non-optional value {found}"
                )
            if not found.present:
                entries.pop(name, None)
                continue
            found = found.value
        if isinstance(name, list | dict):
            raise EvaluationError(f"unsupported key type: {type_name(name)}")
        entries[name] = found
    return entries


def _unmetered() -> Frame:
    return Frame({}, Meter(UNLIMITED, MOST_WORK))


def _applied(act: Callable[..., CelValue], cost: Cost, args: list[Step]) -> Step:
    """Plan a call whose work its cost tells; like any other it is paid for before it is made."""

    def step(frame: Frame) -> CelValue:
        values: list[Any] = []
        try:
            for arg in args:
                values.append(arg(frame))  # noqa: PERF401 - an error leaves those before it
        except EvaluationError as error:
            _fail(error, values, args, cost, frame)
        frame.charge(cost(values))
        return act(*values)

    return step


def _working(act: Callable[..., CelValue], cost: Cost, work: Work, args: list[Step]) -> Step:
    """Plan a call that may be more work than it costs."""

    def step(frame: Frame) -> CelValue:
        values: list[Any] = []
        try:
            for arg in args:
                values.append(arg(frame))  # noqa: PERF401 - an error leaves those before it
        except EvaluationError as error:
            _fail(error, values, args, cost, frame, work)
        meter = frame.meter
        # First, because reckoning the cost may take a walk through all of an operand.
        meter.spend(work(values, meter.left))
        frame.charge(cost(values))
        return act(*values)

    return step


def _fail(
    failure: EvaluationError,
    values: list[Any],
    args: list[Step],
    cost: Cost,
    frame: Frame,
    work: Work | None = None,
) -> NoReturn:
    """Raise *failure*, which is that of the operand behind *values*.

    Of up to two operands both are evaluated and paid for, of more than two none behind an error.
    """
    frame.meter.spend(ERROR_WORK)
    if len(args) <= 2:
        values.append(failure)
        for arg in args[len(values) :]:
            try:
                values.append(arg(frame))
            except EvaluationError as error:
                values.append(error)
        if work is not None:
            frame.meter.spend(work(values, frame.meter.left))
        frame.charge(cost(values))
    raise failure


def _decided(terms: list[Step], *, stop: bool) -> Step:
    """Plan ``||`` (*stop* is true) or ``&&``: a term without value matters only if no other decides."""  # noqa: E501

    def step(frame: Frame) -> CelValue:
        failure: EvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except EvaluationError as error:
                frame.meter.spend(ERROR_WORK)
                failure = failure or error
                continue
            if value is stop:
                return stop
            if not isinstance(value, bool):
                failure = failure or no_overload()
        if failure is not None:
            raise failure
        return not stop

    return step


def _not_strictly_false(term: Step) -> Step:
    def step(frame: Frame) -> CelValue:
        try:
            value = term(frame)
        except EvaluationError:
            frame.meter.spend(ERROR_WORK)
            value = True
        frame.charge(1)
        return value is not False

    return step


def _membership(overloads: tuple[Any, ...], args: list[Step]) -> Step | None:
    """Plan ``x in [1, 2]`` with constants, which costs nothing but *x*."""
    container = args[1]
    if len(overloads) != 1 or not isinstance(container, Constant):
        return None
    if not isinstance(container.value, list):
        return None
    if not container.value:
        return Constant(False)
    if not all(isinstance(item, bool | int | float | str) for item in container.value):
        return None
    # Python takes true for 1, CEL does not.
    among = {(isinstance(item, bool), item) for item in container.value}

    def step(frame: Frame) -> CelValue:
        value = args[0](frame)
        if not isinstance(value, bool | int | float | str):
            return False
        return (isinstance(value, bool), value) in among

    return step


def _bound(name: str, start: Step, result: Step) -> Step:
    """Plan ``cel.bind``: the value is computed when it is first used."""

    def step(frame: Frame) -> CelValue:
        return result(frame.with_lazy(name, start))

    return step


def _loop(expr: Fold, ranged: Step, start: Step, condition: Step, step: Step, result: Step) -> Step:
    def pairs(items: CelValue) -> Iterable[tuple[CelValue, CelValue]]:
        if isinstance(items, dict):
            return items.items() if expr.second else ((key, None) for key in items)
        if isinstance(items, list):
            return enumerate(items) if expr.second else ((item, None) for item in items)
        raise _not_iterable(items, two=bool(expr.second))

    collector = _collector(start)

    def loop(frame: Frame) -> CelValue:
        items = ranged(frame)
        inner = frame.nested()
        inner.accumulate(expr.accumulator, collector or start)
        spend = frame.meter.spend
        for first, second in pairs(items):
            spend(3)
            inner.names[expr.variable] = first
            if expr.second:
                inner.names[expr.second] = second
            if condition(inner) is not True:
                break
            inner.accumulate(expr.accumulator, step)
        inner.names.pop(expr.variable, None)
        return _settled(result(inner))

    return loop


def _collector(start: Step) -> Step | None:
    """Return what makes the empty list or map that a loop adds to without copying it."""
    if isinstance(start, Constant) and start.value == [] and isinstance(start.value, list):
        return lambda frame: Growing()
    if isinstance(start, Constant) and start.value == {} and isinstance(start.value, dict):
        return lambda frame: GrowingMap()
    return None


def _settled(value: CelValue) -> CelValue:
    """Return a list or map that grew in a loop as an ordinary one."""
    if isinstance(value, Growing):
        return list(value)
    return dict(value) if isinstance(value, GrowingMap) else value


def _not_iterable(value: CelValue, *, two: bool) -> EvaluationError:
    names = {"bool": "types.Bool", "int": "types.Int", "uint": "types.Uint"}
    names |= {"double": "types.Double", "string": "types.String", "bytes": "types.Bytes"}
    name = names.get(type_name(value), type_name(value))
    if two:
        return EvaluationError(f"unsupported comprehension range type: {name}")
    return EvaluationError(f"got '{name}', expected iterable type")
