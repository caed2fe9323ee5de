"""Other answers to the same query: Marabou, MILP solvers, and a fake for tests."""
