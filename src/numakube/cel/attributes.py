"""Names and the paths behind them (``a.b[c].?d``), and the frame that they are resolved in.

A path is one unit, as in cel-go: it costs one for the name and one for each step. Behind an
optional step the rest of the path is optional, too, and the value of the path is an optional.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from numakube.cel.cel_errors import EvaluationError
from numakube.cel.evaluation_meter import ERROR_WORK
from numakube.cel.type_conversions import to_string
from numakube.cel.values import NONE, CelValue, Optional, find, is_number, type_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.cel.evaluation_meter import Meter


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
        if not isinstance(self.key, Attribute):
            frame.charge(1)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A name, or the value of an expression, with the path behind it."""

    base: Callable[[Frame], CelValue]
    cost: int = 1
    path: tuple[_Qualifier, ...] = field(default=())

    @classmethod
    def of_name(cls, name: str) -> Attribute:
        """Return the variable *name*."""
        return cls(lambda frame: frame.lookup(name))

    @classmethod
    def over(cls, step: Step) -> Attribute:
        """Return *step* as something that a path can be added to."""
        return step if isinstance(step, Attribute) else cls(step)

    def indexed(self, key: Step, *, maybe: bool = False) -> Attribute:
        """Return this with ``[key]`` (or ``[?key]``) behind it."""
        return replace(self, path=(*self.path, _Qualifier(key, maybe)))

    def tested(self, name: str) -> Attribute:
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


def conditional(condition: Step, yes: Step, no: Step) -> Attribute:
    """Return ``condition ? yes : no``, which costs what the condition and one branch cost."""

    def chosen(frame: Frame) -> CelValue:
        value = condition(frame)
        if not isinstance(value, bool):
            raise EvaluationError("no such overload")
        branch = yes if value else no
        return branch.resolve(frame) if isinstance(branch, Attribute) else branch(frame)

    return Attribute(chosen, cost=0)
