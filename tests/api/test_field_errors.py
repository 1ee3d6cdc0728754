"""Wording of field errors."""

from __future__ import annotations

import pytest

from numakube.api import field_errors as fe


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (fe.required("spec"), "spec: Required value"),
        (fe.required("spec.x", "must be set"), "spec.x: Required value: must be set"),
        (fe.invalid("a", "x y", "bad"), 'a: Invalid value: "x y": bad'),
        (fe.invalid("a", -1, "bad"), "a: Invalid value: -1: bad"),
        (fe.invalid("a", True, "bad"), "a: Invalid value: true: bad"),
        (fe.invalid("a", 1.0, "bad"), "a: Invalid value: 1: bad"),
        (fe.invalid("a", {"b": "<"}, "bad"), 'a: Invalid value: {"b":"\\u003c"}: bad'),
        (fe.invalid("a", None, "bad"), "a: Invalid value: null: bad"),
        (fe.forbidden("a", "no"), "a: Forbidden: no"),
        (fe.duplicate("a[1]", "x"), 'a[1]: Duplicate value: "x"'),
        (fe.not_found("a", "x"), 'a: Not found: "x"'),
        (
            fe.not_supported("a", "x", ["b", "c"]),
            'a: Unsupported value: "x": supported values: "b", "c"',
        ),
        (fe.too_long("a", 63), "a: Too long: may not be more than 63 bytes"),
        (fe.too_many("a", 3, 1), "a: Too many: 3: must have at most 1 item"),
        (fe.invalid("a", fe.Verbatim("<dump>"), "bad"), "a: Invalid value: <dump>: bad"),
    ],
)
def test_an_error_reads_as_the_api_server_words_it(error: fe.FieldError, text: str) -> None:
    """Each type of error has its title, shows its value unless it must not, and its detail."""
    assert str(error) == text


def test_several_errors_make_one_message_without_repetition() -> None:
    """One error stands alone; several stand in brackets, each once."""
    first, second = fe.required("a"), fe.required("b")

    assert fe.aggregate([first]) == "a: Required value"
    assert fe.aggregate([first, second, first]) == "[a: Required value, b: Required value]"
