"""Turns a checked tree into functions that evaluate it, and count what the evaluation costs.

Follows cel-go's planner and runtime cost tracker (0.29) as Kubernetes configures them: literals of
constants and conversions of constants are computed once and cost nothing; a name and each step of
a path behind it cost one; a test for presence is free; calls cost what `numakube.cel.costs` says.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from numakube.cel.cel_errors import EvaluationError
from numakube.cel.costs import (
    ERROR_WORK,
    MOST_WORK,
    PATTERN_FUNCTIONS,
    UNLIMITED,
    Meter,
    call_cost,
    matching,
    work_of,
)
from numakube.cel.function_table import CONVERSIONS, LAZY, function_of
from numakube.cel.syntax import (
    Expr,
    Fold,
    FunctionCall,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
)
from numakube.cel.values import (
    NONE,
    CelValue,
    Growing,
    GrowingMap,
    Optional,
    TypeValue,
    find,
    is_number,
    no_overload,
    to_string,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.cel.checker import Checker
    from numakube.cel.costs import Cost, Work


# Names and the paths behind them (``a.b[c].?d``), and the frame that they are resolved in.
#
# A path is one unit, as in cel-go: it costs one for the name and one for each step. Behind an
# optional step the rest of the path is optional, too, and the value of the path is an optional.


class Frame:
    """The variables of an evaluation, and what counts its cost."""

    __slots__ = ("charge", "meter", "names")

    def __init__(self, names: dict[str, Any], meter: Meter) -> None:
        self.names = names
        self.meter = meter
        self.charge = meter.charge

    def nested(self) -> Frame:
        """Return a frame that sees the same variables and can get more."""
        return Frame(dict(self.names), self.meter)

    def with_lazy(self, name: str, value: Step) -> Frame:
        """Return a frame in which *name* is computed by *value* when it is first used."""
        inner = self.nested()
        inner.names[name] = _Lazy(value, self)
        return inner

    def accumulate(self, name: str, step: Step) -> None:
        """Set the accumulator *name* to what *step* yields; an error is kept as its value."""
        try:
            self.names[name] = step(self)
        except EvaluationError as error:
            self.meter.spend(ERROR_WORK)
            self.names[name] = error

    def lookup(self, name: str) -> CelValue:
        """Return the value of the variable *name*."""
        value = self.names[name]
        if isinstance(value, EvaluationError):
            # Raised over and over, it would remember all the places that it came by.
            raise value.with_traceback(None)
        return value.get() if isinstance(value, _Lazy) else value


Step: TypeAlias = "Callable[[Frame], CelValue]"


class _Lazy:
    """A value that is computed at most once."""

    def __init__(self, step: Step, frame: Frame) -> None:
        self._step = step
        self._frame = frame
        self._outcome: list[Any] = []

    def get(self) -> CelValue:
        if not self._outcome:
            try:
                self._outcome.append(self._step(self._frame))
            except EvaluationError as error:
                self._outcome.append(error)
        value = self._outcome[0]
        if isinstance(value, EvaluationError):
            raise value.with_traceback(None)
        return value


@dataclass(frozen=True, slots=True)
class Constant:
    """A step whose value is known; it costs nothing."""

    value: CelValue

    def __call__(self, frame: Frame) -> CelValue:
        """Return the value."""
        return self.value


@dataclass(frozen=True, slots=True)
class _Qualifier:
    """One step of a path: a key or index, whether it may be missing, whether only that is asked."""

    key: Step
    maybe: bool = False
    test: bool = False

    def charge(self, frame: Frame) -> None:
        # An attribute as index has charged for itself.
        if not isinstance(self.key, AttributePath):
            frame.charge(1)


@dataclass(frozen=True, slots=True)
class AttributePath:
    """A name, or the value of an expression, with the path behind it."""

    base: Callable[[Frame], CelValue]
    cost: int = 1
    path: tuple[_Qualifier, ...] = field(default=())

    @classmethod
    def of_name(cls, name: str) -> AttributePath:
        """Return the variable *name*."""
        return cls(lambda frame: frame.lookup(name))

    @classmethod
    def over(cls, step: Step) -> AttributePath:
        """Return *step* as something that a path can be added to."""
        return step if isinstance(step, AttributePath) else cls(step)

    def indexed(self, key: Step, *, maybe: bool = False) -> AttributePath:
        """Return this with ``[key]`` (or ``[?key]``) behind it."""
        return replace(self, path=(*self.path, _Qualifier(key, maybe)))

    def tested(self, name: str) -> AttributePath:
        """Return whether this has a field *name*."""
        test = _Qualifier(Constant(name), test=True)
        return replace(self, path=(*self.path, test), cost=self.cost - 1)

    def __call__(self, frame: Frame) -> CelValue:
        """Resolve the path."""
        try:
            return self.resolve(frame)
        finally:
            frame.charge(self.cost)

    def resolve(self, frame: Frame) -> CelValue:
        """Resolve the path without the cost of the name."""
        value = self.base(frame)
        if not self.path:
            return value
        maybe = isinstance(value, Optional)
        if maybe:
            if not value.present:
                return value if not self.path[-1].test else False
            value = value.value
        for step in self.path:
            maybe = maybe or step.maybe
            found = _qualified(step, value, frame, maybe=maybe)
            if step.test:
                return found.present
            if not found.present:
                return NONE
            value = found.value
        return Optional(True, value) if maybe else value


def _qualified(step: _Qualifier, value: CelValue, frame: Frame, *, maybe: bool) -> Optional:
    key = step.key(frame)
    found = _lookup(value, key, lenient=step.test or maybe)
    if found.present or step.test:
        step.charge(frame)
    elif not maybe:
        step.charge(frame)
        raise EvaluationError(f"no such key: {key_text(key)}")
    return found


def _lookup(value: CelValue, key: CelValue, *, lenient: bool) -> Optional:
    if isinstance(value, dict):
        return find(value, key)
    if isinstance(value, list):
        index = _index(key)
        if 0 <= index < len(value):
            return Optional(True, value[index])
        if not lenient:
            raise EvaluationError(f"index out of bounds: {key_text(key)}")
    return NONE


def _index(key: CelValue) -> int:
    if not is_number(key):
        raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
    if key != int(key):
        raise EvaluationError(f"unsupported index value {key_text(key)} in list")
    return int(key)


def key_text(key: CelValue) -> str:
    """Return *key* as Go prints it in an error."""
    return to_string(key)


def conditional(condition: Step, yes: Step, no: Step) -> AttributePath:
    """Return ``condition ? yes : no``, which costs what the condition and one branch cost."""

    def chosen(frame: Frame) -> CelValue:
        value = condition(frame)
        if not isinstance(value, bool):
            raise EvaluationError("no such overload")
        branch = yes if value else no
        return branch.resolve(frame) if isinstance(branch, AttributePath) else branch(frame)

    return AttributePath(chosen, cost=0)


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
            case FunctionCall():
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
            return AttributePath.of_name(expr.name)
        operand = AttributePath.over(self.plan(expr.operand))
        return operand.tested(expr.field) if expr.test else operand.indexed(Constant(expr.field))

    def _call(self, expr: FunctionCall) -> Step:
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
                return AttributePath.over(args[0]).indexed(args[1], maybe=maybe)
            case _:
                return self._function(expr, function, args)

    def _function(self, expr: FunctionCall, function: str, args: list[Step]) -> Step:
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
