"""YAML as Kubernetes reads it: a way to write JSON, and nothing more.

The safe loader, less what YAML 1.1 makes of a time or of ``12:30:45`` (base sixty): those are
strings in Kubernetes, and so are the keys of maps. ``y`` and ``n`` are booleans, as in Go's
library. Anchors work, but a document that unfolds to more than `MAX_VALUES`, nests deeper than
`MAX_DEPTH` or contains itself is refused. Errors say the line. Nodes are composed here, not in C,
whose recursion ends the process where it is too deep.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from numakube.errors import MalformedObject
from numakube.values.safe_text import MAX_DEPTH, MAX_DIGITS, MAX_VALUES

if TYPE_CHECKING:
    from yaml import SafeDumper, SafeLoader
else:
    SafeDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    if hasattr(yaml, "CSafeLoader"):

        class SafeLoader(yaml.composer.Composer, yaml.CSafeLoader):
            """The parser in C, and the rest in Python."""

            def __init__(self, stream: object) -> None:
                yaml.CSafeLoader.__init__(self, stream)
                yaml.composer.Composer.__init__(self)

    else:
        SafeLoader = yaml.SafeLoader

_STRING_TAG: Final = "tag:yaml.org,2002:str"
_BOOL_TAG: Final = "tag:yaml.org,2002:bool"
_TIME_TAG: Final = "tag:yaml.org,2002:timestamp"
_NUMBER_TAGS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_BASE_SIXTY: Final = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$")
_ONE_LETTER: Final = re.compile("[yYnN]$")


class KubernetesLoader(SafeLoader):
    """The safe loader with the scalars of Kubernetes, and with limits."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node, unless it is too deep."""
        if self._depth >= MAX_DEPTH:
            raise _beyond(f"nested deeper than {MAX_DEPTH}", parent)
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge what ``<<`` names, which may unfold like anchors do."""
        super().flatten_mapping(node)
        if len(node.value) > MAX_VALUES:
            raise _beyond(f"merges more than {MAX_VALUES} values", node)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:  # noqa: ANN401
        """Construct a scalar; a number has limits too."""
        if node.tag in _NUMBER_TAGS and len(node.value) > MAX_DIGITS:
            raise _beyond(f"a number of more than {MAX_DIGITS} digits", node)
        return super().construct_scalar(node)


def _beyond(problem: str, node: yaml.Node | None) -> yaml.MarkedYAMLError:
    mark = None if node is None else node.start_mark
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _as_text(loader: KubernetesLoader, node: yaml.ScalarNode) -> object:
    return loader.construct_scalar(node)


KubernetesLoader.yaml_implicit_resolvers = {
    first: [(_STRING_TAG, _BASE_SIXTY), *(choice for choice in choices if choice[0] != _TIME_TAG)]
    for first, choices in SafeLoader.yaml_implicit_resolvers.items()
}
KubernetesLoader.add_constructor(_TIME_TAG, _as_text)
KubernetesLoader.add_implicit_resolver(_BOOL_TAG, _ONE_LETTER, list("yYnN"))
KubernetesLoader.bool_values = {**SafeLoader.bool_values, "y": True, "n": False}


class _Dumper(SafeDumper):
    """Quotes what the loader would not take for text."""


_Dumper.add_implicit_resolver(_BOOL_TAG, _ONE_LETTER, list("yYnN"))


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Write a text of several lines, such as a file in a ConfigMap, line by line."""
    return dumper.represent_scalar(_STRING_TAG, text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text_node)


def load_yaml(text: str | bytes, subject: str) -> object:
    """Return the only document of *text* as plain dicts, lists and scalars."""
    documents = load_yaml_documents(text, subject)
    if len(documents) > 1:
        raise MalformedObject(subject, f"one YAML document expected, not {len(documents)}")
    return documents[0] if documents else None


def load_yaml_documents(text: str | bytes, subject: str) -> tuple[object, ...]:
    """Return every document of *text* that is not empty."""
    try:
        # It is a safe loader.
        documents = list(yaml.load_all(text, Loader=KubernetesLoader))
        return tuple(_unfold(document, subject) for document in documents if document is not None)
    except yaml.MarkedYAMLError as error:
        raise MalformedObject(subject, _where(error)) from None
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:
        # Constructors of the safe loader trust explicit tags, such as ``!!int x`` or ``!!bool x``.
        raise MalformedObject(subject, f"not YAML: {error}") from None
    except RecursionError:
        raise MalformedObject(subject, f"nested deeper than {MAX_DEPTH}") from None


def load_manifests(text: str | bytes, subject: str) -> tuple[dict[str, Any], ...]:
    """Return every object of *text*, YAML or JSON, with the items of lists taken out of them."""
    objects: list[dict[str, Any]] = []
    for document in load_yaml_documents(text, subject):
        if not isinstance(document, dict):
            raise MalformedObject(subject, "each document must be an object")
        items = document.get("items")
        is_list = str(document.get("kind", "")).endswith("List") and isinstance(items, list)
        objects += items if is_list and items else [] if is_list else [document]
    return tuple(objects)


def dump_yaml(tree: object, *, ascii_only: bool = False) -> str:
    """Return *tree* as one YAML document, keys in their order."""
    text: str = yaml.dump(
        tree, Dumper=_Dumper, sort_keys=False, allow_unicode=not ascii_only, width=100
    )
    return text


def _where(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    line = f"line {mark.line + 1}: " if mark else ""
    return f"{line}not YAML: {error.problem or error.context}"


def _unfold(document: object, subject: str) -> object:
    """Return *document* with string keys, after making sure that its anchors do not explode."""
    size = _size(document, {})
    if size > MAX_VALUES:
        raise MalformedObject(subject, f"anchors unfold to more than {MAX_VALUES} values")
    return _with_text_keys(document)


def _size(tree: object, known: dict[int, int]) -> int:
    """Return how many values *tree* has with every anchor written out."""
    if not isinstance(tree, dict | list):
        return 1
    if id(tree) not in known:
        # A part that contains itself finds this while it is still being measured.
        known[id(tree)] = MAX_VALUES
        children = tree.values() if isinstance(tree, dict) else tree
        known[id(tree)] = 1 + sum(_size(child, known) for child in children)
    return known[id(tree)]


def _with_text_keys(tree: object) -> object:
    if isinstance(tree, dict):
        return {key_text(key): _with_text_keys(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_with_text_keys(item) for item in tree]
    if tree is not None and not isinstance(tree, str | bool | int | float):
        raise ValueError(f"a value that JSON does not have: {type(tree).__name__}")
    return tree


def key_text(key: object) -> str:
    """Return the key of a map as JSON has it."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)
