"""Native mode: decides every policy and scope from counts, then asks the kubelet model.

    pod_wants                   what a pod wants, as numbers, and what that means by given rules
    node_counts                 what is known of one node, as numbers
    reference_alignment         the decision for one node, to be read
    alignment                   the same decision for a batch of nodes at once
    reference_alignment_score   how good a placement is, on one node
    alignment_score             the same for a batch of nodes at once
    refusal_groups              why nodes of a batch were refused
    node_batch                  the arrays that batches are made of
    verdict_cache               answers for pods of one kind, kept until a node changes
    model_check                 the kubelet model's word on the best candidates, and on closeness
    native_options              what a user can choose
    native_engine               all of it behind `NumaEngine`

A refusal from counts is a proof: whatever the exact state behind the counts is, the kubelet rejects
the pod too. Acceptance from counts is not, which is why the model has the last word.
"""
