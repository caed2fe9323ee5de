"""The kernels of a GPU's search (`fused.cu`), compiled at run time for one shape of networks.

Enters: a `Shape`. Leaves: `Kernels` that can be launched, or None where there is no compiler, or no room.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Protocol

import torch

__all__ = ["STARTS", "Kernels", "Shape", "gpu_kernels"]

Tensor = torch.Tensor
Dimensions = tuple[int, int, int]
WARPS = 4  # a block
WIDEST = 128  # neurons of a layer, beyond which a lane's registers do not hold a row
BOXES = ("climb", "plant", "halve")  # kernels that take a warp for a box
ITEMS = ("find_winners", "crown_winners", "find_highest")  # kernels that take a thread for an item
STARTS, ASCENT, STEPS = 16, 10, 3


class Kernels(Protocol):
    """The compiled kernels of one shape."""

    def launch(self, name: str, world: Tensor, *more: int | Tensor) -> None:
        """Run a kernel over all there is."""


@dataclass(frozen=True)
class Shape:
    """What kernels are compiled for."""

    sizes: tuple[int, ...]  # inputs, hidden layers, outputs of one network
    stack: int
    constraints: int
    smooth: bool  # whether some activation is

    @property
    def single(self) -> int:
        return sum(self.sizes[1:-1])

    @property
    def weights(self) -> int:
        return sum(a * b for a, b in zip(self.sizes, self.sizes[1:], strict=False))

    def source(self) -> str:
        """The kernels' text with all sizes in front."""
        defined = {
            "INPUTS": self.sizes[0],
            "OUTPUTS": self.sizes[-1],
            "HIDDEN": len(self.sizes) - 2,
            "SIZES": "{" + ", ".join(map(str, self.sizes)) + "}",
            "STACK": self.stack,
            "SINGLE": self.single,
            "WEIGHTS": self.weights,
            "WIDEST": max(self.sizes),
            "CONSTRAINTS": self.constraints,
            "SMOOTH": int(self.smooth),
            "STEPS": STEPS,
            "STARTS": STARTS,
            "ASCENT": ASCENT,
        }
        head = "".join(f"#define {name} {value}\n" for name, value in defined.items())
        return head + resources.files("karenina.engine").joinpath("fused.cu").read_text(encoding="utf-8")

    @property
    def room(self) -> int:
        """Bytes of shared memory for one box."""
        inputs, outputs, neurons = self.sizes[0], self.sizes[-1], self.stack * self.single
        rows = 2 * self.stack * max(self.sizes) + self.stack * outputs + 3 * (self.constraints + 1) + 4 * self.stack
        return 8 * (8 * inputs + 20 * neurons + rows)


class _Kernel(Protocol):
    """What torch makes of a kernel's text."""

    def __call__(self, *, grid: Dimensions, block: Dimensions, args: list[int | Tensor], shared_mem: int) -> None: ...

    def set_shared_memory_config(self, shared_mem_bytes: int) -> None: ...


class _Gpu:
    """Kernels on the current GPU."""

    def __init__(self, shape: Shape) -> None:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._processors = properties.multi_processor_count
        most = getattr(properties, "shared_memory_per_block_optin", 48 << 10)
        self._warps = max(1, min(WARPS, most // shape.room))
        self._shared = self._warps * shape.room
        self._source = shape.source()
        self._compiled = {name: self._kernel(name) for name in (*BOXES, *ITEMS, "sort_out")}

    def launch(self, name: str, world: Tensor, *more: int | Tensor) -> None:
        kernel = self._compiled[name]
        if name == "sort_out":
            grid, block, shared = 1, 1024, 0
        elif name in BOXES:
            grid, block, shared = 8 * self._processors, 32 * self._warps, self._shared
        else:
            grid, block, shared = 4 * self._processors, 256, 0
        kernel(grid=(grid, 1, 1), block=(block, 1, 1), args=[world, *more], shared_mem=shared)

    def _kernel(self, name: str) -> _Kernel:
        kernel: _Kernel = torch.cuda._compile_kernel(f"#define ONLY_{name}\n{self._source}", name)
        if name in BOXES:
            kernel.set_shared_memory_config(self._shared)
        return kernel


@lru_cache(maxsize=16)
def gpu_kernels(shape: Shape, device: torch.device) -> Kernels | None:
    """Kernels for a shape, or None where they cannot be made: no compiler, or no room for such networks."""
    if device.type != "cuda" or not hasattr(torch.cuda, "_compile_kernel"):
        return None
    with torch.cuda.device(device):
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        if shape.room > getattr(properties, "shared_memory_per_block_optin", 0) or max(shape.sizes) > WIDEST:
            return None
        try:
            return _Gpu(shape)
        except Exception:  # no NVRTC, or one that refuses: plain torch is there
            return None
