"""The doctor's checks: what is wrong with a cluster, and what to do about it.

    diagnosis = diagnose(facts)
    for entry in diagnosis.entries: ...

One module an area, named after what it checks; each check is a function from `ClusterFacts` to
findings and says nothing about what it does not know. `all_checks` has all of them.
"""
