"""What the table of a kind is made of: columns and the cells of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kube_lab_server.kinds.value_checks import is_convertible, selector_of
from numakube.api.selector_text import selector_text
from numakube.errors import InvalidValue
from numakube.values.display import age_text
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


NONE: Final = "<none>"
UNSET: Final = "<unset>"
UNKNOWN: Final = "<unknown>"


class Column(NamedTuple):
    """A column; one with a priority above zero is only shown if asked for (``-o wide``)."""

    name: str
    description: str
    type: str = "string"
    priority: int = 0
    format: str = ""


def wide(name: str, description: str) -> Column:
    """Return a column of text that is only shown if asked for."""
    return Column(name, description, priority=1)


def number(name: str, description: str) -> Column:
    """Return a column of whole numbers."""
    return Column(name, description, type="integer")


def flag(name: str, description: str) -> Column:
    """Return a column of truth values."""
    return Column(name, description, type="boolean")


NAME: Final = Column("Name", "Name of the object.", format="name")
AGE: Final = Column("Age", "Time since the object was created.")


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of one object, and what is true of the row, such as "the pod has ended"."""

    cells: list[JsonValue]
    conditions: tuple[Json, ...] = ()


def _nothing(obj: Json) -> tuple[Json, ...]:
    del obj
    return ()


@dataclass(frozen=True, slots=True)
class Table:
    """How objects of a kind are shown.

    Attributes:
        columns: the columns from left to right.
        cells: returns the cells of an object at a time.
        conditions: returns what is true of the row of an object.
    """

    columns: tuple[Column, ...]
    cells: Callable[[Json, datetime], list[JsonValue]]
    conditions: Callable[[Json], tuple[Json, ...]] = _nothing


def human_age(moment: str | None, now: datetime) -> str:
    """Return the age of an RFC 3339 timestamp; one that is missing is ``<unknown>``."""
    if not moment:
        return UNKNOWN
    try:
        return age_text((now - parse_time(moment)).total_seconds())
    except InvalidValue:
        return "<invalid>"


def time_between(start: str, end: str) -> str:
    """Return how long it was from one timestamp to a later one."""
    return human_age(start, parse_time(end))


def name_of(obj: Json) -> str:
    """Return the name of an object."""
    name: str = obj["metadata"]["name"]
    return name


def age_of(obj: Json, now: datetime) -> str:
    """Return the age of an object."""
    return human_age(obj["metadata"].get("creationTimestamp"), now)


def shown_some(texts: Iterable[str], count: int, limit: int = 3) -> str:
    """Return the first texts of a list of *count*, and how many more there are."""
    text = ",".join(list(texts)[:limit])
    return f"{text} + {count - limit} more..." if count > limit else text


def condition_status(obj: Json, kind: str) -> str | None:
    """Return the status of the first condition of a type, or None."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((item.get("status") or "" for item in conditions if item["type"] == kind), None)


def format_selector(selector: Json | None) -> str:
    """Return *selector* in the one-line form of kubectl: ``app=a,tier in (x,y)``."""
    if not is_convertible(selector):
        return "<error>"
    return selector_text(selector_of(selector)) or NONE


def format_labels(labels: Mapping[str, str] | None) -> str:
    """Return *labels* in the one-line form of kubectl: ``a=b,c=d``."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


CONTAINERS: Final = wide("Containers", "Names of the containers of each pod.")
IMAGES: Final = wide("Images", "Images of the containers of each pod.")
SELECTOR: Final = wide("Selector", "Labels of the pods that belong to the object.")
TEMPLATE: Final = (CONTAINERS, IMAGES)


def template_cells(template: Json | None) -> list[JsonValue]:
    """Return the names and the images of the containers of a pod template."""
    containers = ((template or {}).get("spec") or {}).get("containers") or []
    return [
        ",".join(container.get(field) or "" for container in containers)
        for field in ("name", "image")
    ]


def spec_and_status(obj: Json) -> tuple[Json, Json]:
    """Return the two parts of an object; empty ones for those that it lacks."""
    return obj.get("spec") or {}, obj.get("status") or {}


def balancer_addresses(status: Json) -> str:
    """Return the addresses of a load balancer, in order."""
    entries = (status.get("loadBalancer") or {}).get("ingress") or []
    found = {entry.get("ip") or entry.get("hostname") or "" for entry in entries}
    return ",".join(sorted(found - {""}))


def _aged(obj: Json, now: datetime) -> list[JsonValue]:
    return [name_of(obj), age_of(obj, now)]


AGED_TABLE: Final = Table((NAME, AGE), _aged)
"""The table of kinds that only show their age."""


def _plain(obj: Json, now: datetime) -> list[JsonValue]:
    del now
    return [name_of(obj), obj["metadata"].get("creationTimestamp") or UNKNOWN]


PLAIN_TABLE: Final = Table(
    (NAME, Column("Created At", "When the object was created.", type="date")), _plain
)
"""The table of kinds without one of their own."""
