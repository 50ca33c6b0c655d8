"""Detectors: literal replacements in the finished text, data included (3.2 C12, C13, D31)."""

from __future__ import annotations

from collections.abc import Sequence

from app.config.families import DetectorRule
from app.extend import Piece, Trust
from app.prompt.limits import Budget
from app.prompt.pieces import PromptText


def detect(text: PromptText, rules: Sequence[DetectorRule], budget: Budget) -> PromptText:
    """Apply the rules one after the other; a later rule sees what an earlier one put in.

    A match may lie across pieces of any trust. Rules without pattern or output have no effect (2.3).
    """
    joined: str | None = None
    for rule in rules:
        if not (rule.pattern and rule.output):
            continue
        if joined is None:
            joined = text.join()
        if rule.pattern not in joined:
            continue
        pieces = (Piece(rule.output, rule.name, Trust.OPERATOR),)

        def insert(name: str = rule.name, pieces: Sequence[Piece] = pieces) -> Sequence[Piece]:
            budget.spend(name, pieces)
            return pieces

        text = text.replace_literals((rule.pattern,), insert)
        joined = None
    return text
