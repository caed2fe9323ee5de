"""The paper's three environments, simulated many episodes at a time, and adaptors to the usual interfaces.

Importing this package registers them with gymnasium, if it is installed: gymnasium looks for no plugins by itself.
"""

from __future__ import annotations

import contextlib

__all__: list[str] = []

with contextlib.suppress(ModuleNotFoundError):  # the simulators need no gymnasium
    from karenina.zoo.environments.registration import register_environments

    register_environments()
