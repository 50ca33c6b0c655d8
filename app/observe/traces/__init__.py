"""Traces: what each request did and when, from events to a file that people can look into.

``collector`` hears events and keeps records of what runs; ``document`` makes JSON of a record; ``store`` writes it with
a thread of its own; ``report`` is what may be shown to others; ``tracing`` puts them together.
"""
