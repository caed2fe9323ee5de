"""karenina: select the networks that generalise, by certified pairwise disagreement."""
