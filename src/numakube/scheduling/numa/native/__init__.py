"""Native mode: every policy and scope decided from counts, and by the kubelet model where it can.

    shape.py       what a pod wants, as numbers, worked out once a pod
    counts.py      what is known of one node, as numbers
    reference.py   the decision for one node, to be read
    vector.py      the same decision for all nodes at once
    score.py       how good a placement is, for one node and for all
    exact.py       the kubelet model's word on the best candidates

A refusal from counts is a proof: whatever the exact state behind the counts is, the kubelet refuses
the pod too. Acceptance from counts is not, which is why the model has the last word.
"""
