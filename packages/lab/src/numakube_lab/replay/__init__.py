"""Replays recorded kube-apiserver answers against a running API server.

A case is a list of requests with the answers of a real server (`recorded_cases`). `run_case` sends
the requests and `recorded_cases` compares what comes back, up to what no two servers share: uids,
versions, times; `replay` does this for a file of cases, each on an API server of its own or all on
a given one.
"""
