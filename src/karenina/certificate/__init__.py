"""Certificates: proofs of what was found, for a checker that trusts nothing."""

__all__: list[str] = []
