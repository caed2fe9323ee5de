"""Model files into networks: one module a format."""
