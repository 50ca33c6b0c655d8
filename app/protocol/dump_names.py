"""Names of the files that ``DebugMode`` writes (spec 1.13); scripts of operators look for them."""

from __future__ import annotations

INPUT = "LogInput"
AFTER_VARIABLES = "LogAfterVariableProcessing"
AFTER_PREPROCESSORS = "LogAfterPreprocessors"
OUTPUT = "LogOutputAfterProcessing"


def results_for_model(*, stream: bool) -> str:
    """What a round's tools told the model."""
    return f"LogToolResultForAI-{_mode(stream)}"


def tool_result(tool: str, *, stream: bool, archery: bool) -> str:
    """The result of one tool."""
    return f"VCP-{_mode(stream)}{'-Archery' if archery else ''}-Result-{tool}"


def _mode(stream: bool) -> str:
    return "Stream" if stream else "NonStream"
