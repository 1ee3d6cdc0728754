"""Bodies in YAML, read as the real server's library reads them: as another way to write JSON.

The library counts lines in its own way when something is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import yaml
from yaml.scanner import ScannerError

from numakube.api.yaml_text import KubernetesLoader, key_text
from numakube.values.gotext import go_quote
from numakube_lab.schema.jsontext import MalformedJson

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numakube_lab.kinds import JsonValue

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


class Document(NamedTuple):
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


def read_yaml(text: bytes) -> Document:
    """Read YAML as JSON."""
    loader = _Loader(text)
    try:
        value = loader.get_single_data()
    except yaml.YAMLError as error:
        raise MalformedYaml(describe(error)) from None
    finally:
        loader.dispose()
    return Document(
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
