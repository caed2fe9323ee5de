"""JSON files that know whether they are what was written. Enters: content. Leaves: bytes with a checksum, and from
them the same content, or a ValueError.

The checksum is of the content, not of the bytes: a file that was only laid out anew is still the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["CHECKSUM", "seal", "unseal"]

CHECKSUM = "checksum"


def seal(content: Mapping[str, object]) -> bytes:
    """The content as JSON, with a checksum as its last key."""
    whole = {**content, CHECKSUM: _checksum(content)}
    return (json.dumps(whole, indent=1, allow_nan=False) + "\n").encode()


def unseal(data: bytes) -> dict[str, Any]:
    """The content, without the checksum; a ValueError where that is missing or wrong."""
    try:
        content = json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(content, dict):
        raise ValueError("not an object")
    if content.pop(CHECKSUM, None) != _checksum(content):
        raise ValueError("the checksum is missing or wrong")
    return content


def _checksum(content: Mapping[str, object]) -> str:
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()
