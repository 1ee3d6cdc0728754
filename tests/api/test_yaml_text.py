"""YAML as Kubernetes reads it."""

from itertools import pairwise

import pytest

from numakube.api.yaml_text import dump_yaml, load_manifests, load_yaml, load_yaml_documents
from numakube.errors import MalformedObject
from numakube.values.safe_text import MAX_DEPTH, MAX_VALUES


def test_scalars_are_those_of_kubernetes() -> None:
    """Times and base-sixty numbers are strings; keys always are."""
    text = (
        "{at: 2026-01-02T03:04:05Z, day: 2026-01-02, t: 12:30:45, i: 12, on: 1, b: n, 8: x, f: 0.5}"
    )

    assert load_yaml(text, "test") == {
        "at": "2026-01-02T03:04:05Z",
        "day": "2026-01-02",
        "t": "12:30:45",
        "i": 12,
        "b": False,
        "true": 1,
        "8": "x",
        "f": 0.5,
    }


def test_one_document_is_expected_unless_more_are_asked_for() -> None:
    """Empty documents do not count."""
    assert load_yaml("---\n---\na: 1\n---\n", "test") == {"a": 1}
    assert load_yaml("", "test") is None
    assert load_yaml_documents("a: 1\n---\nb: 2", "test") == ({"a": 1}, {"b": 2})
    with pytest.raises(MalformedObject, match="one YAML document expected, not 2"):
        load_yaml("a: 1\n---\nb: 2", "test")


def test_manifests_are_taken_out_of_lists() -> None:
    """``kubectl get -o yaml`` prints a list."""
    text = "{kind: Pod}\n---\n{kind: List, items: [{kind: Node}]}\n---\n{kind: PodList, items: []}"

    assert load_manifests(text, "test") == ({"kind": "Pod"}, {"kind": "Node"})
    with pytest.raises(MalformedObject, match="must be an object"):
        load_manifests("- a", "test")


@pytest.mark.parametrize("text", ["a: [", "a: b: c", "!!python/object:os.system {}", "\x00"])
def test_malformed_or_unsafe_text_is_refused(text: str) -> None:
    """Python's own tags are not known to the safe loader."""
    with pytest.raises(MalformedObject, match="not YAML"):
        load_yaml(text, "test")


def test_anchors_work_but_cannot_explode() -> None:
    """Neither by doubling nor by containing themselves, nor by depth."""
    assert load_yaml("{a: &x [1], b: *x}", "test") == {"a": [1], "b": [1]}
    bomb = "\n".join(
        ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    )
    with pytest.raises(MalformedObject, match=str(MAX_VALUES)):
        load_yaml(bomb, "test")
    with pytest.raises(MalformedObject, match=str(MAX_VALUES)):
        load_yaml("&a [*a]", "test")


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_nesting_has_a_limit_that_does_not_depend_on_the_stack(opening: str) -> None:
    """The parser in C ends the whole process where it is too deep."""
    with pytest.raises(MalformedObject, match=f"test: line 1: .*nested deeper than {MAX_DEPTH}"):
        load_yaml(opening * 100_000, "test")


def test_merged_maps_cannot_explode() -> None:
    """``<<`` copies what it names, each time."""
    names = "abcdefghi"
    lines = ["a: &a {k: v}"] + [
        f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 10)}]}}"
        for before, name in pairwise(names)
    ]
    with pytest.raises(MalformedObject, match="merges more than"):
        load_yaml("\n".join(lines), "test")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: " + "9" * 5000, "line 1: not YAML: a number of more than 400 digits"),
        ("0x" + "f" * 9000, "a number of more than 400 digits"),
        ("a: !!int x", "not YAML: invalid literal"),
        ("a: !!bool x", "not YAML: "),
        ("a: !!binary eA==", "a value that JSON does not have: bytes"),
        ("!!set {a, b}", "a value that JSON does not have: set"),
        (b"\xff\xfe\x00", "not YAML: "),
    ],
)
def test_odd_scalars_are_told_in_a_sentence(text: str | bytes, reason: str) -> None:
    """Python's own errors say neither the file nor the line."""
    with pytest.raises(MalformedObject, match=reason):
        load_yaml(text, "test")


def test_a_date_that_is_none_is_a_string_like_any_other() -> None:
    """Even where it is called a time."""
    assert load_yaml("{a: 2026-13-45, b: !!timestamp 2026-99-99}", "test") == {
        "a": "2026-13-45",
        "b": "2026-99-99",
    }


def test_dumping_keeps_the_order_of_keys() -> None:
    """So that a manifest reads as it was declared."""
    assert dump_yaml({"kind": "Pod", "apiVersion": "v1"}) == "kind: Pod\napiVersion: v1\n"


@pytest.mark.parametrize("text", ["y", "N", "yes", "on", "1", "1:30", "2026-01-02", "~", "plain"])
def test_text_is_written_so_that_it_is_read_as_text(text: str) -> None:
    """As a value and as a key."""
    assert load_yaml(dump_yaml({text: text}), "test") == {text: text}
