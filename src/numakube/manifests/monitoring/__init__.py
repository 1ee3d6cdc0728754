"""Alerts and a Grafana dashboard over the metrics of all components.

One source for the files under ``deploy/monitoring``. Tests check every metric and label that an
expression uses against what the processes really export, and every runbook against the page.
"""
