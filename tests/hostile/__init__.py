"""Bad and hostile files, each built by a small function, and the command line that is made to read it.

Enters: nothing. Leaves: `CASES`. A case's folder is `.../here`; what lies beside it is no business of whoever reads it.
"""

from hostile import array_files, onnx_files, packed_files, places, run_files, specification_files, toml_files
from hostile.case import CASES, Case

__all__ = [
    "CASES",
    "Case",
    "array_files",
    "onnx_files",
    "packed_files",
    "places",
    "run_files",
    "specification_files",
    "toml_files",
]
