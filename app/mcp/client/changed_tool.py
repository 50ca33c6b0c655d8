"""A tool of an MCP server that is another one than before, as people see it (MCP-55). Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff

from app.errors import both
from app.extend import Json

FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""What of a tool a model or a person reads, and what a call depends on. The rest is neither kept nor compared."""

MAX_DIFF_LINES = 400

MAX_COMPARED_LINES = 1_000
"""Of either side, from the first difference on: comparing takes the longer the more lines are like each other."""

CONTEXT_LINES = 2

Tool = Mapping[str, Json]
"""A tool as ``tools/list`` gives it, as JSON."""


@dataclass(frozen=True, slots=True)
class ChangedTool:
    """A tool that is hidden since it is another one than the one consented to; ``old`` is empty when that is lost."""

    name: str
    old: Tool
    new: Tool

    @property
    def digest(self) -> str:
        """Names the tool as it is listed now, so that a person consents to what was shown and to nothing else."""
        return digest_of(self.new)

    def diff(self) -> str:
        """Both as lines of JSON, compared; at most ``MAX_DIFF_LINES`` lines, in bounded time."""
        old, new = _lines(self.old), _lines(self.new)
        same = _same(old, new)
        old, new = old[max(0, same - CONTEXT_LINES) :], new[max(0, same - CONTEXT_LINES) :]
        alike = _same(old[::-1], new[::-1])
        ends = max(0, alike - CONTEXT_LINES)
        old, new = old[: len(old) - ends], new[: len(new) - ends]
        left_out = max(0, len(old) - MAX_COMPARED_LINES, len(new) - MAX_COMPARED_LINES)
        lines = list(
            unified_diff(
                old[:MAX_COMPARED_LINES],
                new[:MAX_COMPARED_LINES],
                "accepted",
                "listed now",
                lineterm="",
                n=CONTEXT_LINES,
            )
        )
        left_out += max(0, len(lines) - MAX_DIFF_LINES)
        if left_out:
            lines[MAX_DIFF_LINES:] = [both(f"……另有 {left_out} 行", f"… {left_out} further lines")]
        return "\n".join(lines)


def canonical(tool: Tool) -> str:
    """The tool as JSON of one spelling. Raises ValueError, TypeError or RecursionError for what is no such tool."""
    return json.dumps(tool, sort_keys=True, separators=(",", ":"))


def digest_of(tool: Tool) -> str:
    """Equal for tools that are the same."""
    return hashlib.sha256(canonical(tool).encode()).hexdigest()


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines at the beginning are equal."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _lines(tool: Tool) -> list[str]:
    """Texts line by line, so that a change inside a long description is seen."""
    lines: list[str] = []
    for field in FIELDS:
        value = tool.get(field)
        if isinstance(value, str):
            lines.append(f"{field}:")
            lines += [f"  {line}" for line in value.split("\n")]
        elif value is not None:
            lines.append(f"{field}:")
            pretty = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
            lines += [f"  {line}" for line in pretty.split("\n")]
    return lines
