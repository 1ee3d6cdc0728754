"""Public names of packages that are loaded when they are first used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize("package", ["numakube.kube", "numakube.kubelet"])
def test_every_public_name_of_a_package_can_be_imported(package: str) -> None:
    module = import_module(package)
    assert module.__all__
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []


@pytest.mark.parametrize("package", ["numakube.kube", "numakube.kubelet"])
def test_a_name_that_a_package_does_not_have_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Absent'"):
        _ = import_module(package).Absent


def test_a_public_name_loads_its_module_and_not_the_package() -> None:
    code = (
        "import sys; from numakube.kubelet import Machine\n"
        "print(Machine.__module__, 'numakube.kubelet.kubelet_model' in sys.modules)"
    )
    printed = subprocess.run(  # noqa: S603 - our own interpreter
        (sys.executable, "-c", code), capture_output=True, text=True, check=True
    ).stdout
    assert printed == "numakube.kubelet.machine False\n"
