"""Measurements: every module here yields JSON-able results from ``run()``."""
