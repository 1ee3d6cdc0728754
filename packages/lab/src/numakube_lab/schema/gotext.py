"""Values as Go's ``%v`` prints them: error messages of the API server quote maps in this form."""

from __future__ import annotations


def go_text(value: object) -> str:
    """Return *value* as Go prints it: ``map[image:x:1 name:a]``, ``[1 2]``, ``<nil>``."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case dict():
            return f"map[{' '.join(f'{k}:{go_text(value[k])}' for k in sorted(value))}]"
        case list():
            return f"[{' '.join(map(go_text, value))}]"
        case float():
            return _float_text(value)
        case _:
            return str(value)


def _float_text(number: float) -> str:
    """Return the shortest text; Go has exponents from 1e+21 on and at least two digits in them."""
    if number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    text = repr(float(number))
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{exponent[0]}{exponent[1:]:0>2}" if e else text
