"""The quick look at a document says that it fits only if the thorough one finds nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kube_lab_server.kind_names import Problems
from kube_lab_server.schema.builtin_types import struct
from kube_lab_server.schema.go_decoding import explain, fits
from kube_lab_server.schema.jsontext import RepeatedKeys
from kube_lab_server.schema.types import ListType, MapType, Scalar, ScalarKind, Struct, Type

POD = struct("core.v1", "Pod")
_DEPTH = 4
_TEXTS = st.sampled_from(["", "a", "1", "500m", "1Gi", "1 Gi", "2026-01-02T03:04:05Z", "YQ=="])
_NUMBERS = st.sampled_from([0, 80, -1, 2**31, 2**63, 1.5])
_ANYTHING = st.one_of(_TEXTS, _NUMBERS, st.booleans(), st.none(), st.just([]), st.just({}))


def documents(kind: Type, depth: int = _DEPTH) -> st.SearchStrategy[Any]:
    """Draw values of *kind*, now and then with something that is out of place."""
    return st.one_of(*[_fitting(kind, depth)] * 12, _ANYTHING)


def _fitting(kind: Type, depth: int) -> st.SearchStrategy[Any]:
    match kind:
        case Struct() if depth:
            fields = [st.tuples(st.just(f.name), st.just(f.type)) for f in kind.fields.values()]
            names = st.lists(st.one_of(*fields, st.just(("odd", kind))), max_size=4)
            return names.flatmap(lambda chosen: _object(chosen, depth))
        case ListType() if depth:
            return st.lists(documents(kind.element, depth - 1), max_size=2)
        case MapType() if depth:
            return st.dictionaries(_TEXTS, documents(kind.element, depth - 1), max_size=2)
        case Scalar(kind=ScalarKind.BOOLEAN):
            return st.booleans()
        case Scalar(kind=ScalarKind.INT32 | ScalarKind.INT64):
            return st.integers(-(2**31), 2**31 - 1)
        case Scalar():
            return _TEXTS
        case _:
            return st.none()


def _object(chosen: list[tuple[str, Type]], depth: int) -> st.SearchStrategy[Any]:
    pairs = st.tuples(
        *(st.tuples(st.just(name), documents(kind, depth - 1)) for name, kind in chosen)
    )
    return pairs.map(
        lambda drawn: dict(drawn) if len(dict(drawn)) == len(drawn) else RepeatedKeys([*drawn])
    )


@given(documents(POD))
def test_a_document_fits_just_when_nothing_is_wrong_with_it(document: Any) -> None:
    """The quick look replaces the thorough one where nothing is wrong."""
    assert fits(POD, document) == (explain(document, POD, strict=True) == Problems())


def test_a_document_that_names_a_field_twice_does_not_fit() -> None:
    """Someone has to say which."""
    assert not fits(POD, RepeatedKeys([("spec", {}), ("spec", {})]))


def test_a_document_with_an_unknown_field_does_not_fit() -> None:
    """Someone has to say which."""
    assert not fits(POD, {"spec": {"odd": 1}})
