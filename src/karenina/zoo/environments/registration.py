"""The environments' names in gymnasium. Enters: nothing. Leaves: `gymnasium.make("karenina/PccNs-v0")` works.

No environment is imported before it is made.
"""

from __future__ import annotations

from gymnasium.envs.registration import register, registry

__all__ = ["IDENTIFIERS", "register_environments"]

# gymnasium's name -> the benchmark that it simulates, and the class that does.
IDENTIFIERS = {
    "karenina/CartPoleContinuous-v0": ("cartpole", "DrawnEnvironment"),
    "karenina/MountainCarContinuous-v1": ("mountaincar", "DrawnEnvironment"),
    "karenina/PccNs-v0": ("aurora", "SingleEnvironment"),
}


def register_environments() -> None:
    """Make the names known, once. The episode's length is a parameter, so gymnasium need not cut episodes."""
    for identifier, (benchmark, name) in IDENTIFIERS.items():
        if identifier not in registry:
            register(
                identifier,
                entry_point=f"karenina.zoo.environments.single:{name}",
                vector_entry_point="karenina.zoo.environments.vector:vector_environment",
                kwargs={"benchmark": benchmark},
            )
