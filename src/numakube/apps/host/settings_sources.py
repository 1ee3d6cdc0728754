"""Settings of a process, from a configuration file, the environment and flags.

A process declares each setting once, as a field of a frozen dataclass, and gets from its table
(`SettingsTable`) a command line with help, the reading of files and of the environment, and one
instance of the dataclass in which flags win over the environment, the environment over files, and
files over defaults. Settings that several processes have are a dataclass of their own (`group`).

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ExampleSettings:
        interval: float = setting("--sleep-interval", type=DURATION, default=60.0,
                                  key="example.sleepInterval", env="SLEEP_INTERVAL", help="...")
        logs: LogSettings = group(LogSettings)

    SETTINGS = SettingsTable(ExampleSettings)
    settings = SETTINGS.resolve(files=[values], env=os.environ, flags={"interval": 5.0})
    settings.interval

What is wrong with a file is said all at once, with the nearest known key for one that is unknown.
"""

from __future__ import annotations

import difflib
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import click

from numakube.errors import ConfigError, InvalidValue
from numakube.programs import Stage
from numakube.values.times import SECOND, format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.apps.host.process_life import Surroundings
    from numakube.programs import FeatureGate

S = TypeVar("S")

Values: TypeAlias = dict[str, Any]
"""Values of some settings by their name, before they are all known."""

_SETTING: Final = "setting"
_GROUP: Final = "group"


class DurationType(click.ParamType[Any]):
    """Seconds, written as in Go (``1m30s``); in files also as a number of nanoseconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds that *value* stands for."""
        if isinstance(value, float):
            return value
        if isinstance(value, int):
            return value / SECOND
        try:
            return parse_duration(str(value)) / SECOND
        except InvalidValue as error:
            self.fail(f"{error}; write it as in 60s or 1m30s", param, ctx)


DURATION: Final = DurationType()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One thing that can be set.

    Attributes:
        name: what its value is called in the program.
        flag: how it is set on the command line; a switch is ``--name/--no-name``. Empty for words
            without a flag.
        type: how text becomes a value.
        default: its value if it is not set.
        help: one sentence for the help.
        key: its path in configuration files, dotted; empty if it cannot be set there.
        env: the environment variable that sets it; empty if it has none.
        multiple: several values can be given.
        metavar: what the help calls its value.
    """

    name: str
    flag: str
    type: click.ParamType[Any] = click.STRING
    default: Any = ""
    help: str = ""
    key: str = ""
    env: str = ""
    multiple: bool = False
    metavar: str | None = None

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return isinstance(self.default, bool)

    def parameter(self) -> click.Parameter:
        """Return it as a parameter of a command."""
        if not self.flag:
            return click.Argument([self.name], nargs=-1, metavar=self.metavar)
        shown = format_duration(round(self.default * SECOND)) if self.type is DURATION else None
        is_shown = not self.multiple and self.default not in ("", None)
        return click.Option(
            [*self.flag.split(), self.name],
            type=None if self.is_switch else self.type,
            is_flag=self.is_switch,
            default=shown if shown is not None else self.default or None,
            show_default=is_shown,
            multiple=self.multiple,
            help=f"{self.help} [{self.env}]" if self.env else self.help,
            metavar=self.metavar,
        )

    def read(self, value: Any, where: str) -> Any:  # noqa: ANN401 - what a file or variable has
        """Return *value* of a file or a variable as a value of this setting.

        Raises:
            ConfigError: it makes no sense.
        """
        if self.multiple:
            many = value if isinstance(value, list) else str(value).split(",")
            return tuple(self._one(one, where) for one in many)
        return self._one(value, where)

    def _one(self, value: Any, where: str) -> Any:  # noqa: ANN401
        if self.is_switch:
            if isinstance(value, bool):
                return value
            return self._converted(click.BOOL, str(value), where)
        if isinstance(value, bool | dict | list) or value is None:
            raise ConfigError(f"{where}: {value!r} is not a {self.type.name}")
        if self.type is not DURATION:
            value = str(value)
        return self._converted(self.type, value, where)

    def _converted(self, type_: click.ParamType[Any], value: Any, where: str) -> Any:  # noqa: ANN401
        try:
            return type_.convert(value, None, None)
        except click.BadParameter as error:
            raise ConfigError(f"{where}: {error.message}") from None


def setting(flag: str, **attributes: Any) -> Any:  # noqa: ANN401 - what its field is declared as
    """Return a field of a dataclass that is set by *flag*; see `Setting` for its attributes."""
    made = Setting(name="", flag=flag, **attributes)
    return field(default=made.default, metadata={_SETTING: {"flag": flag, **attributes}})


def group(type_: type[S], **changes: Values) -> S:
    """Return a field of a dataclass that holds the settings of the dataclass *type_*.

    Args:
        type_: the dataclass.
        changes: attributes that differ here, by the name of the setting.
    """
    defaults = {name: one["default"] for name, one in changes.items() if "default" in one}
    made: S = field(default_factory=lambda: type_(**defaults), metadata={_GROUP: (type_, changes)})
    return made


def _declared(type_: type[Any], changes: Mapping[str, Values]) -> Iterator[Setting]:
    """Yield the settings of a dataclass in the order in which they are declared."""
    for one in fields(type_):
        if _GROUP in one.metadata:
            yield from _declared(*one.metadata[_GROUP])
        else:
            attributes = {**one.metadata[_SETTING], **changes.get(one.name, {})}
            yield Setting(name=one.name, **attributes)


def _instance(type_: type[Any], values: Values) -> Any:  # noqa: ANN401 - of that type
    """Return the dataclass, and those in it, with their *values*."""
    parts = {}
    for one in fields(type_):
        group_ = one.metadata.get(_GROUP)
        parts[one.name] = _instance(group_[0], values) if group_ else values[one.name]
    return type_(**parts)


def _leaves(settings: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - a dataclass
    for one in fields(settings):
        value = getattr(settings, one.name)
        if _GROUP in one.metadata:
            yield from _leaves(value)
        else:
            yield one.name, value


class SettingsTable(Generic[S]):
    """The settings of a process, which end up in an instance of the dataclass *type_*."""

    def __init__(self, type_: type[S]) -> None:
        self._type = type_
        self.all = tuple(_declared(type_, {}))
        self._by_key = {one.key: one for one in self.all if one.key}

    def parameters(self) -> list[click.Parameter]:
        """Return all settings as parameters of a command."""
        return [one.parameter() for one in self.all]

    def given(self, ctx: click.Context) -> Values:
        """Return the values that were given on the command line, before the command or after it."""
        sources = click.core.ParameterSource
        line = (sources.COMMANDLINE, sources.DEFAULT_MAP)
        names = [one.name for one in self.all if ctx.get_parameter_source(one.name) in line]
        return {name: ctx.params[name] for name in names}

    def defaults(self) -> Values:
        """Return the values of settings that are not set."""
        return {one.name: one.default for one in self.all}

    def flat(self, settings: S) -> Values:
        """Return all values of *settings* by name."""
        return dict(_leaves(settings))

    def from_environment(self, env: Mapping[str, str]) -> Values:
        """Return the values that variables set; an empty variable sets nothing."""
        return {
            one.name: one.read(env[one.env], f"environment variable {one.env}")
            for one in self.all
            if one.env and env.get(one.env)
        }

    def from_tree(self, tree: object, subject: str, *, beside: Sequence[str] = ()) -> Values:
        """Return the values that the file *subject* sets.

        Args:
            tree: what the file says; an empty file says nothing.
            subject: what the file is called in complaints.
            beside: keys at the top of the file that are read elsewhere.

        Raises:
            ConfigError: with everything that is wrong.
        """
        values: Values = {}
        problems: list[str] = []
        for key, value in _flat(tree, subject, frozenset(beside), self._by_key.keys()):
            setting = self._by_key.get(key)
            if setting is None:
                problems.append(self._unknown(key, beside))
                continue
            try:
                values[setting.name] = setting.read(value, key)
            except ConfigError as error:
                problems.append(str(error))
        if problems:
            raise ConfigError(f"{subject}: {'; '.join(problems)}")
        return values

    def resolve(self, *, files: Iterable[Values] = (), env: Mapping[str, str], flags: Values) -> S:
        """Return the value of every setting; later files win over earlier ones."""
        merged = self.defaults()
        for values in files:
            merged |= values
        made: S = _instance(self._type, merged | self.from_environment(env) | flags)
        return made

    def read(self, flags: Values, around: Surroundings) -> S:
        """Return what the environment and *flags* add up to, of a process that reads no files."""
        return self.resolve(env=around.env, flags=flags)

    def _unknown(self, key: str, beside: Sequence[str]) -> str:
        near = difflib.get_close_matches(key, [*self._by_key, *beside], n=1)
        return f"unknown key {key!r}" + (f" (is {near[0]!r} meant?)" if near else "")


def _flat(
    tree: object, subject: str, beside: frozenset[str], known: Iterable[str]
) -> list[tuple[str, Any]]:
    """Return the leaves of *tree* by their dotted paths."""
    if tree is None:
        return []
    if not isinstance(tree, dict):
        raise ConfigError(f"{subject}: must be a mapping of keys to values")
    keys = frozenset(known)
    leaves: list[tuple[str, Any]] = []

    def walk(path: str, value: Any) -> None:  # noqa: ANN401
        if isinstance(value, dict) and path not in keys:
            for key, below in value.items():
                walk(f"{path}.{key}" if path else str(key), below)
        else:
            leaves.append((path, value))

    walk("", {key: value for key, value in tree.items() if key not in beside})
    return leaves


# Which feature gates are on in this program.
#
# ``--feature-gates Name=true,Other=false`` says so, or the variable NUMAKUBE_FEATURE_GATES, or
# ``featureGates`` of a file of settings; the flag wins. As in Kubernetes, AllAlpha and AllBeta
# decide for all gates of their stage that are not named. A lab runs many programs in one process,
# so what is active belongs to the task that runs the program.


VARIABLE: Final = "NUMAKUBE_FEATURE_GATES"
FLAG: Final = "--feature-gates"
KEY: Final = "featureGates"
"""What a file of settings calls them."""
_STAGES: Final = MappingProxyType({"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA})
# As Go reads booleans.
_VALUES: Final = MappingProxyType(
    dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True)
    | dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False)
)
_MOST: Final = 1_000
"""More gates than Kubernetes and we have together."""
_ACTIVE: Final[ContextVar[Mapping[str, bool]]] = ContextVar(
    "feature gates", default=MappingProxyType({})
)

FLAG_OPTION: Final = click.Option(
    [FLAG, "feature_gates"],
    multiple=True,
    metavar="NAME=true|false,...",
    help=f"Switch features on or off: numakube help topic feature-gates. [{VARIABLE}]",
)


def read_gates(text: str, where: str) -> dict[str, bool]:
    """Return what ``Name=true,Other=false`` says.

    Raises:
        ConfigError: a gate is unknown, or its value is.
    """
    pairs = [pair.strip() for pair in text.split(",") if pair.strip()]
    return checked_gates(
        {name: value for name, _, value in (pair.partition("=") for pair in pairs)}, where
    )


def checked_gates(tree: object, where: str) -> dict[str, bool]:
    """Return the gates of a mapping; those of Kubernetes, which mean nothing here, are left out.

    Raises:
        ConfigError: it is no mapping, a gate is unknown, or its value is.
    """
    if not isinstance(tree, dict) or len(tree) > _MOST:
        raise ConfigError(f"{where}: must be a mapping of feature gates to true or false")
    found = {}
    for name, value in tree.items():
        on = value if isinstance(value, bool) else _VALUES.get(str(value))
        if on is None:
            raise ConfigError(f"{where}: feature gate {name}={value} is neither true nor false")
        if name in gate_names():
            found[str(name)] = on
        elif not _is_of_kubernetes(str(name)):
            raise ConfigError(f"{where}: {_unknown(str(name))}")
    return found


def _known_gates() -> Mapping[str, FeatureGate]:
    # What starts without gates reads no manifests of annexes.
    from numakube.annexes import feature_gates

    return feature_gates()


def gate_names() -> list[str]:
    """Return every name that may be given."""
    return sorted((*_known_gates(), *_STAGES))


def _is_of_kubernetes(name: str) -> bool:
    # A long table, which only files and command lines of other programs need.
    from numakube.api.kubelet_start_rules import is_gate

    return is_gate(name)


def _unknown(name: str) -> str:
    known = gate_names()
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"unknown feature gate {name}; {hint}"


def activate(flag: str, env: Mapping[str, str]) -> None:
    """Let flag and environment decide in this task and those that it starts.

    Raises:
        ConfigError: they name what there is not.
    """
    _ACTIVE.set(read_gates(env.get(VARIABLE, ""), VARIABLE) | read_gates(flag, FLAG))


def add_of_files(gates: Mapping[str, bool]) -> None:
    """Let files of settings decide about *gates* that flag and environment do not name."""
    _ACTIVE.set({**gates, **_ACTIVE.get()})


def gates_and_whether_on() -> list[tuple[FeatureGate, bool]]:
    """Return every gate, with whether it is on in the program of this task."""
    return [(gate, _is_on(gate)) for gate in _known_gates().values()]


def _is_on(gate: FeatureGate) -> bool:
    chosen = _ACTIVE.get()
    of_stage = next(
        (chosen[name] for name, one in _STAGES.items() if name in chosen and one is gate.stage),
        gate.default,
    )
    return chosen.get(gate.name, of_stage)


def is_enabled(name: str) -> bool:
    """Tell whether the gate *name* is on in the program of this task."""
    return _is_on(_known_gates()[name])


def require(name: str, asked_for: str) -> None:
    """Raise unless the gate *name* is on, which *asked_for* needs.

    Raises:
        ConfigError: it is off.
    """
    if not is_enabled(name):
        raise ConfigError(
            f"{asked_for} needs the feature gate {name}, which is off: {FLAG} {name}=true"
        )


def active_text() -> str:
    """Return what this program was told, for programs that it deploys."""
    return as_text(_ACTIVE.get())


def as_text(gates: Mapping[str, Any]) -> str:
    """Return gates as the flag has them."""
    return ",".join(f"{name}={str(on).lower()}" for name, on in sorted(gates.items()))
