"""Public names of a package that are imported when they are first used.

A package with a public surface would otherwise load all of its modules whenever one of them is
imported: the garbage collector would load the whole model of the kubelet for one type in it.

    __getattr__ = lazy_names(__name__, {"client": "Client", "clock": "Clock SystemClock"})

The package imports the same names under `TYPE_CHECKING`, for type checkers and for readers.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of *package*.

    Args:
        package: the name of the package.
        modules: the public names, separated by spaces, by the module below it that has them.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def getattr_of_package(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return getattr_of_package
