"""The version of all distributions of numakube; it stands here alone."""

VERSION = "0.9.0"
