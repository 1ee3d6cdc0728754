"""What tests of placement by annotation share with those of the command line."""

from tests.cli.conftest import numakube
from tests.conftest import plain_logs

__all__ = ["numakube", "plain_logs"]
