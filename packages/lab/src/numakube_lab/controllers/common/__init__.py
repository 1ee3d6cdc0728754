"""What all controllers share: the loop, mirrors of the cluster, actions, owner references."""
