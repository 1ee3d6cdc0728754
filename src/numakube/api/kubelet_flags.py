"""The kubelet's command line, in files of systemd too, as far as it decides about topology.

Deprecated as they are, flags win over the configuration file and its drop-ins (Kubernetes 1.35,
cmd/kubelet/app). A drop-in is merged into what came before it: objects key by key, lists as a
whole.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numakube.api.codec import convert
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.errors import InvalidValue, MalformedObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Tree: TypeAlias = dict[str, Any]

DEFAULT_ROOT: Final = "/var/lib/kubelet"
_GATES: Final = "featureGates"
_SWITCHES: Final = {
    **dict.fromkeys(("true", "t", "1"), True),
    **dict.fromkeys(("false", "f", "0"), False),
}
_CONTINUED: Final = re.compile(r"\\\n\s*")
_VARIABLE: Final = re.compile(
    r"(?:export\s+|Environment=)?[\"']?(?P<name>KUBELET_\w+)=(?P<rest>.*)"
)
_COMMAND: Final = re.compile(r"ExecStart=\S*kubelet(?P<rest>\s.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFlags:
    """What a command line says.

    Attributes:
        config: the configuration file; empty if there is none.
        config_dir: the folder of drop-ins; empty if there is none.
        root_dir: the kubelet's own folder.
        fields: fields of the configuration that flags set.
    """

    config: str = ""
    config_dir: str = ""
    root_dir: str = DEFAULT_ROOT
    fields: Tree = field(default_factory=dict)


def arguments_in(text: str, subject: str) -> tuple[str, ...] | None:
    """Return the kubelet's arguments in a file of systemd; ``None`` if it is no such file."""
    lines = [line.strip() for line in _CONTINUED.sub(" ", text).splitlines()]
    if not any(_VARIABLE.match(line) or _COMMAND.match(line) for line in lines):
        return None
    return tuple(_arguments(lines, subject))


def _arguments(lines: Iterable[str], subject: str) -> Iterator[str]:
    """Yield the arguments of the command, then those of variables; the last of a name counts."""
    command: list[str] = []
    variables: dict[str, list[str]] = {}
    for line in lines:
        if found := _VARIABLE.match(line):
            # A quote before the name is closed at the end of the line, as in units.
            quoted = line[: found.start("name")][-1:] in ("'", '"')
            rest = found["rest"][:-1] if quoted else found["rest"]
            variables[found["name"]] = _words(rest, subject)
        elif found := _COMMAND.match(line):
            command = [one for one in _words(found["rest"] or "", subject) if one[:1] != "$"]
    yield from command
    for words in variables.values():
        yield from words


def _words(text: str, subject: str) -> list[str]:
    """Return the words that systemd makes of a variable's value: quotes go, blanks part."""
    try:
        return [word for part in shlex.split(text, comments=True) for word in part.split()]
    except ValueError as error:
        raise MalformedObject(subject, f"{text!r}: {error}") from None


def read_flags(arguments: Sequence[str]) -> KubeletFlags:
    """Return what *arguments* say; flags about other things are passed over.

    Raises:
        InvalidValue: a flag makes no sense.
    """
    given = list(_pairs(arguments))
    last = dict(given)
    fields: Tree = {}
    for name, text in given:
        if name in _FIELDS:
            key, read = _FIELDS[name]
            fields[key] = _joined(fields.get(key), read(text))
    return KubeletFlags(
        config=last.get("config", ""),
        config_dir=last.get("config-dir", ""),
        root_dir=last.get("root-dir", DEFAULT_ROOT),
        fields=fields,
    )


def configuration(files: Iterable[Tree], flags: KubeletFlags) -> KubeletConfiguration:
    """Return what the configuration file, its drop-ins in order, and *flags* add up to."""
    tree: Tree = {}
    for file in files:
        tree = _merged(tree, file)
    gates = {**(tree.get(_GATES) or {}), **flags.fields.get(_GATES, {})}
    tree = {**tree, **flags.fields, **({_GATES: gates} if gates else {})}
    return convert(KubeletConfiguration, tree, "the kubelet's command line and files")


def write_flags(tree: Tree) -> list[str]:
    """Return the flags that say what *tree*, a KubeletConfiguration, says; for known fields."""
    return [
        f"--{name}={_written(tree[key], '<' if read is _thresholds else '=')}"
        for name, (key, read) in _FIELDS.items()
        if tree.get(key)
    ]


def _written(value: Any, sign: str) -> str:  # noqa: ANN401 - the value of any field
    if isinstance(value, dict):
        return ",".join(f"{name}{sign}{_written(one, sign)}" for name, one in value.items())
    if isinstance(value, list):
        return ";".join(f"{one['numaNode']}:{_written(one['limits'], sign)}" for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pairs(arguments: Sequence[str]) -> Iterable[tuple[str, str]]:
    rest = iter(arguments)
    for argument in rest:
        name, equals, text = argument.removeprefix("--").partition("=")
        name = name.replace("_", "-")
        if argument.startswith("--") and name in _KNOWN:
            yield name, text if equals else next(rest, "")


def _joined(before: Any, new: Any) -> Any:  # noqa: ANN401 - whatever the field is
    """Return what a flag that is given twice says: texts are replaced, the rest adds up."""
    if isinstance(new, dict):
        return {**(before or {}), **new}
    return [*(before or ()), *new] if isinstance(new, list) else new


def _merged(base: Tree, patch: Tree) -> Tree:
    result = dict(base)
    for key, value in patch.items():
        known = result.get(key)
        both = isinstance(known, dict) and isinstance(value, dict)
        result[key] = _merged(known, value) if both else value  # type: ignore[arg-type]
    return {key: value for key, value in result.items() if value is not None}


def _map(text: str, sign: str = "=") -> dict[str, str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if any(sign not in part for part in parts):
        raise InvalidValue(f"kubelet flag: {text!r} is not a list of name{sign}value")
    return {name.strip(): value.strip() for name, _, value in (p.partition(sign) for p in parts)}


def _thresholds(text: str) -> dict[str, str]:
    return _map(text, "<")


def _gates(text: str) -> dict[str, bool]:
    return {name: _switch(name, value) for name, value in _map(text).items()}


def _switch(name: str, text: str) -> bool:
    if text.lower() not in _SWITCHES:
        raise InvalidValue(f"kubelet flag --feature-gates: {name}={text} is neither true nor false")
    return _SWITCHES[text.lower()]


def _reserved_memory(text: str) -> list[Tree]:
    found = []
    for part in text.strip("'\"").split(";"):
        node, colon, limits = part.strip().partition(":")
        if not colon or not node.isdecimal():
            raise InvalidValue(f"kubelet flag --reserved-memory: {part!r} names no NUMA node")
        found.append({"numaNode": int(node), "limits": _map(limits)})
    return found


_FIELDS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "topology-manager-policy": ("topologyManagerPolicy", str),
    "topology-manager-scope": ("topologyManagerScope", str),
    "topology-manager-policy-options": ("topologyManagerPolicyOptions", _map),
    "cpu-manager-policy": ("cpuManagerPolicy", str),
    "cpu-manager-policy-options": ("cpuManagerPolicyOptions", _map),
    "cpu-manager-reconcile-period": ("cpuManagerReconcilePeriod", str),
    "memory-manager-policy": ("memoryManagerPolicy", str),
    "reserved-cpus": ("reservedSystemCPUs", str),
    "reserved-memory": ("reservedMemory", _reserved_memory),
    "system-reserved": ("systemReserved", _map),
    "kube-reserved": ("kubeReserved", _map),
    "eviction-hard": ("evictionHard", _thresholds),
    "feature-gates": (_GATES, _gates),
}
_KNOWN: Final = frozenset({"config", "config-dir", "root-dir", *_FIELDS})
