"""The page about the distribution: its example runs, and its table has every public name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import kube_lab_server

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_says() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    ran = subprocess.run(  # noqa: S603 - our own page
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ran.stdout == printed, ran.stderr


def test_every_public_name_has_its_place_in_the_table() -> None:
    rows = re.findall(r"^\| (`.*?) \|", README, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(kube_lab_server.__all__)


def test_every_public_name_can_be_imported() -> None:
    assert all(hasattr(kube_lab_server, name) for name in kube_lab_server.__all__)
