"""What annotations say about the fate of a simulated pod.

* ``lab.numakube.dev/start-seconds``: how long after admission its containers start;
* ``lab.numakube.dev/run-seconds``: how long its app containers run; for ever if not given;
* ``lab.numakube.dev/exit-code``: what they end with;
* ``lab.numakube.dev/termination-seconds``: how long they take to end when told to.

All but the first may end in a dot and the name of a container, and are about that one then:
``lab.numakube.dev/run-seconds.setup``. That is also how an init container is given a life; without
one it is done at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.api.pod_resources import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.pod import Container, Pod

PREFIX: Final = "lab.numakube.dev/"
START_SECONDS: Final = f"{PREFIX}start-seconds"
RUN_SECONDS: Final = f"{PREFIX}run-seconds"
EXIT_CODE: Final = f"{PREFIX}exit-code"
TERMINATION_SECONDS: Final = f"{PREFIX}termination-seconds"

_OF_CONTAINERS: Final = (RUN_SECONDS, EXIT_CODE, TERMINATION_SECONDS)
_MAX_EXIT_CODE: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The fate of a container from its start on; times in seconds, ``None`` is for ever."""

    run_seconds: float | None = None
    exit_code: int = 0
    termination_seconds: float = 0.0


_FOR_EVER: Final = Script()
_AT_ONCE: Final = Script(run_seconds=0.0)


def start_seconds(pod: Pod) -> float:
    """Return how long after its admission the first container of *pod* starts."""
    return _usable(pod.metadata.annotations, START_SECONDS) or 0.0


def app_script(pod: Pod, container: Container) -> Script:
    """Return the fate of an app container: what is said of it, or of all of them."""
    annotations = pod.metadata.annotations
    return _read(annotations, container.name, _read(annotations, "", _FOR_EVER))


def init_script(pod: Pod, container: Container) -> Script:
    """Return the fate of an init container that is no sidecar: what is said of it by name."""
    return _read(pod.metadata.annotations, container.name, _AT_ONCE)


def problems_of(pod: Pod) -> tuple[str, ...]:
    """Name what makes no sense in the script of *pod*, and is left out."""
    spec = pod.spec
    sidecars = {one.name for one in spec.init_containers if is_sidecar(one)}
    containers = {one.name for one in (*spec.containers, *spec.init_containers)} - sidecars
    return tuple(
        f"annotation {name}: {problem}: ignored"
        for name, text in sorted(pod.metadata.annotations.items())
        if name.startswith(PREFIX) and (problem := _problem(name, text, containers))
    )


def _problem(name: str, text: str, containers: set[str]) -> str:
    about, _, container = name.removeprefix(PREFIX).partition(".")
    known = f"{PREFIX}{about}"
    if known not in (START_SECONDS, *_OF_CONTAINERS):
        return ""
    if _usable({known: text}, known) is None:
        return f"{text!r} is not usable"
    if container and (known == START_SECONDS or container not in containers):
        return f"there is no container {container!r} that it could be about"
    return ""


def _read(annotations: Mapping[str, str], container: str, default: Script) -> Script:
    """Return what is said about a container, or about all if it has no name."""
    if not annotations:
        return default
    suffix = f".{container}" if container else ""
    seconds = _usable(annotations, RUN_SECONDS, suffix)
    code = _usable(annotations, EXIT_CODE, suffix)
    termination = _usable(annotations, TERMINATION_SECONDS, suffix)
    if seconds is code is termination is None:
        return default
    return Script(
        run_seconds=default.run_seconds if seconds is None else seconds,
        exit_code=default.exit_code if code is None else int(code),
        termination_seconds=default.termination_seconds if termination is None else termination,
    )


def _usable(annotations: Mapping[str, str], name: str, suffix: str = "") -> float | None:
    """Return the number that an annotation gives, if it makes sense."""
    text = annotations.get(name + suffix)
    number = None if text is None else _number(text)
    if number is not None and name == EXIT_CODE and not _is_exit_code(number):
        return None
    return number


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    # Anything longer overflows a date; also excludes NaN.
    return number if 0 <= number <= 1e9 else None


def _is_exit_code(number: float) -> bool:
    return number.is_integer() and number <= _MAX_EXIT_CODE
