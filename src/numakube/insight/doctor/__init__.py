"""What is wrong with a cluster as far as NUMA goes, and what to do about it.

    diagnosis = diagnose(facts)
    for entry in diagnosis.entries: ...

One module an area; each check is a function from `numakube.insight.facts.ClusterFacts` to findings
and says nothing about what it does not know. `numakube.insight.doctor.diagnosis` has all of them.
"""
