"""JSON Schemas of tools: whether a value fits (``check``), and what a model reads of them (``text``)."""
