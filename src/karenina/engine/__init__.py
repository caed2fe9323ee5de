"""Our own verifier: branch and bound on linear bounds of the joint network."""
