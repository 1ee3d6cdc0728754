"""The text that the kubelet hashes."""

from operator import itemgetter

from numakube.api.checkpoints.checksum import (
    GoType,
    MapType,
    SliceType,
    StructType,
    checksum_of_text,
    fnv1a_32,
    pointer_to,
    spew,
)

INT = GoType("int")
TEXT = GoType("string")
POINT = StructType("p.Point", (("X", itemgetter(0), INT), ("Name", itemgetter(1), TEXT)))


def test_fnv1a_of_known_texts() -> None:
    """The published test values of FNV-1a."""
    assert fnv1a_32(b"") == 0x811C9DC5
    assert fnv1a_32(b"a") == 0xE40C292C
    assert fnv1a_32(b"foobar") == 0xBF9CF968


def test_checksum_of_a_string() -> None:
    """As in the ``dataChecksum`` of newer files."""
    assert checksum_of_text('{"policyName":"none","defaultCPUSet":"4-6"}') == 657950972


def test_elements_hide_their_types_and_fields_show_them() -> None:
    """Types are printed at the top and before the fields of structs."""
    assert spew(SliceType("[]int", INT), [1, 2]) == "([]int)[1 2]"
    assert spew(POINT, (1, "a")) == "(p.Point){X:(int)1 Name:(string)a}"
    points = SliceType("[]p.Point", POINT)
    assert spew(points, [(1, "a")]) == "([]p.Point)[{X:(int)1 Name:(string)a}]"


def test_maps_are_sorted_by_key() -> None:
    """Numbers by value, strings by character."""
    assert (
        spew(MapType("map[int]string", INT, TEXT), {10: "b", 9: "a"})
        == "(map[int]string)map[9:a 10:b]"
    )
    assert spew(MapType("m", TEXT, INT), {"b": 1, "B": 2}) == "(m)map[B:2 b:1]"


def test_nil_and_empty_differ() -> None:
    """For maps and slices alike."""
    assert spew(SliceType("[]int", INT), None) == "([]int)<nil>"
    assert spew(SliceType("[]int", INT), ()) == "([]int)[]"
    assert spew(MapType("m", TEXT, INT), None) == "(m)<nil>"
    assert spew(MapType("m", TEXT, INT), {}) == "(m)map[]"


def test_pointers() -> None:
    """Typed at the top, a star inside containers."""
    pointer = pointer_to(POINT)

    assert spew(pointer, (1, "a")) == "(*p.Point){X:(int)1 Name:(string)a}"
    assert spew(pointer, None) == "(*p.Point)<nil>"
    assert spew(SliceType("s", pointer), [(1, "a")]) == "(s)[<*>{X:(int)1 Name:(string)a}]"


def test_a_nil_pointer_in_a_container_hides_the_type_of_what_follows() -> None:
    """An oddity of go-spew, which its users' checksums contain."""
    holder = StructType(
        "p.H", (("L", itemgetter(0), SliceType("l", pointer_to(POINT))), ("N", itemgetter(1), INT))
    )

    assert spew(holder, ([None], 5)) == "(p.H){L:(l)[<nil>] N:5}"
