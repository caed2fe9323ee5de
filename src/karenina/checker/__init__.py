"""The independent checker."""

__all__: list[str] = []
