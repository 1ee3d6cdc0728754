"""Which representation the client accepts, and which ones it sends.

JSON and YAML are written. Protobuf is accepted but answered in JSON, which every client reads.

Bodies in YAML, read as the real server's library reads them: as another way to write JSON. The
library counts lines in its own way when something is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import yaml
from yaml.scanner import ScannerError

from kube_lab_server.schema.jsontext import MalformedJson
from kube_lab_server.wire.refusals import not_acceptable
from numakube.api.yaml_text import KubernetesLoader, key_text
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kube_lab_server.kind_names import JsonValue


JSON_TYPE: Final = "application/json"
YAML_TYPE: Final = "application/yaml"
PROTOBUF_TYPE: Final = "application/vnd.kubernetes.protobuf"
MEDIA_TYPES: Final = (JSON_TYPE, YAML_TYPE, PROTOBUF_TYPE)
STREAM_TYPES: Final = (f"{JSON_TYPE};stream=watch", f"{PROTOBUF_TYPE};stream=watch")

_META: Final = "meta.k8s.io"
_VIEWS: Final = {
    "Table": ("v1", "v1beta1"),
    "PartialObjectMetadata": ("v1", "v1beta1"),
    "PartialObjectMetadataList": ("v1", "v1beta1"),
}


@dataclass(frozen=True, slots=True)
class Representation:
    """How an answer is written.

    Attributes:
        yaml: in YAML instead of JSON.
        view: ``Table``, ``PartialObjectMetadata`` or ``PartialObjectMetadataList`` if asked for.
        view_version: version of the view's group ``meta.k8s.io``.
    """

    yaml: bool = False
    view: str = ""
    view_version: str = ""

    @property
    def media_type(self) -> str:
        """The value of the answer's Content-Type."""
        return YAML_TYPE if self.yaml else JSON_TYPE

    @property
    def view_api_version(self) -> str:
        """The ``apiVersion`` of a view."""
        return f"{_META}/{self.view_version}"


PLAIN: Final = Representation()


@dataclass(frozen=True, slots=True)
class Clause:
    """One media range of an Accept header."""

    type: str
    params: dict[str, str]

    @property
    def quality(self) -> float:
        """The preference, 1 if not given."""
        try:
            return float(self.params.get("q", "1"))
        except ValueError:
            return 0.0


@lru_cache(maxsize=256)
def parse_accept(header: str | None) -> tuple[Clause, ...]:
    """Return the clauses of an Accept header, the preferred first."""
    clauses = []
    for text in (header or "").split(","):
        kind, *params = (part.strip() for part in text.split(";"))
        pairs = (param.partition("=") for param in params)
        if kind:
            clauses.append(Clause(kind.lower(), {k.strip(): v.strip('" ') for k, _, v in pairs}))
    return tuple(sorted(clauses, key=lambda clause: -clause.quality))


@lru_cache(maxsize=256)
def check_route_accepts(header: str | None, *, streams: bool) -> None:
    """Refuse what the router itself refuses: a header that names no type the route produces."""
    produced = MEDIA_TYPES + (STREAM_TYPES if streams else ())
    clauses = parse_accept(header)
    if clauses and not any(c.type in ("*/*", *MEDIA_TYPES) for c in clauses):
        listed = ", ".join(produced)
        raise not_acceptable(f"406: Not Acceptable\n\nAvailable representations: {listed}", {})


@lru_cache(maxsize=256)
def negotiate(header: str | None, *, tables: bool = True) -> Representation:
    """Return how to answer a client that accepts *header*.

    Args:
        header: the Accept header.
        tables: whether tables are offered.
    """
    clauses = parse_accept(header)
    if not clauses:
        return PLAIN
    for clause in clauses:
        if clause.type not in ("*/*", "application/*", *MEDIA_TYPES):
            continue
        found = _representation(clause, tables=tables)
        if found is not None:
            return found
    known = ", ".join(MEDIA_TYPES)
    raise not_acceptable(f"only the following media types are accepted: {known}")


def _representation(clause: Clause, *, tables: bool) -> Representation | None:
    yaml = clause.type == YAML_TYPE
    view = clause.params.get("as", "")
    if not view:
        return Representation(yaml=yaml)
    version = clause.params.get("v", "")
    known = clause.params.get("g") == _META and version in _VIEWS.get(view, ())
    if not known or (view == "Table" and not tables):
        return None
    return Representation(yaml, view, version)


@lru_cache(maxsize=256)
def media_type(header: str | None) -> str:
    """Return the media type of a Content-Type header without its parameters."""
    return re.split(r"[;\s]", (header or "").strip(), maxsplit=1)[0].lower()


# What Python's YAML library says, and how Go's puts the same.
_WORDINGS: Final = (
    ("mapping values are not allowed here", "mapping values are not allowed in this context"),
    ("that cannot start any token", "found character that cannot start any token"),
    ("expected <block end>, but found", "did not find expected key"),
    ("expected ',' or ']'", "did not find expected ',' or ']'"),
    ("expected ',' or '}'", "did not find expected ',' or '}'"),
)


class MalformedYaml(MalformedJson):
    """A text is not YAML; the message is that of Go's library."""


class BodyDocument(NamedTuple):
    """A body that was read.

    Attributes:
        repeated: what is said of each key that appears again in a map.
    """

    value: JsonValue
    repeated: tuple[str, ...] = ()

    @property
    def refusal(self) -> str:
        """What is said of all repeated keys together."""
        return "yaml: unmarshal errors:" + "".join(f"\n  {line}" for line in self.repeated)


def read_yaml(text: bytes) -> BodyDocument:
    """Read YAML as JSON."""
    loader = _Loader(text)
    try:
        value = loader.get_single_data()
    except yaml.YAMLError as error:
        raise MalformedYaml(describe(error)) from None
    finally:
        loader.dispose()
    return BodyDocument(
        _sorted(value),
        tuple(
            f"line {line}: key {go_quote(key)} already set in map" for line, key in loader.repeated
        ),
    )


def _sorted(value: JsonValue) -> JsonValue:
    """Return *value* with its keys in the order that JSON made from YAML has them in."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


class _Loader(KubernetesLoader):
    """A loader that notes repeated keys."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.repeated: list[tuple[int, str]] = []

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, JsonValue]:
        """Build a mapping whose keys are text, noting keys that are already there."""
        self.flatten_mapping(node)
        mapping: dict[Hashable, JsonValue] = {}
        for key_node, value_node in node.value:
            key = key_text(self.construct_object(key_node, deep=True))
            if key in mapping:
                self.repeated.append((key_node.start_mark.line + 1, key))
            mapping[key] = self.construct_object(value_node, deep=deep)
        return mapping


def describe(error: yaml.YAMLError) -> str:
    """Return the error as Go's library words it, as far as the two agree."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"yaml: {error}"
    problem = str(error.problem)
    worded = next((go for python, go in _WORDINGS if python in problem), problem)
    # Go's library tells the line of the context unless that is the first, counts from zero except
    # for what its scanner finds, and never tells the first line.
    context = error.context_mark.line if error.context_mark else 0
    line = context or error.problem_mark.line
    if line == 0:
        return f"yaml: {worded}"
    return f"yaml: line {line + isinstance(error, ScannerError)}: {worded}"
