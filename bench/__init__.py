"""Reproducible comparisons: ``python -m bench`` measures the chat path, ``python -m bench.soak`` its staying power."""
