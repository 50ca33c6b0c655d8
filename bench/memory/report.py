"""Tables of what was measured, and whether the goals are met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from bench.memory.measuring import Measured
from bench.memory.metrics import Interval, paired_interval

OURS = "vcp"
ALLOWED_LOSS = 0.01
HARD_KINDS = ("time", "tag", "multi_hop")
HARD_GAIN = 0.05
ABOVE_ALL = ("CMRC 2018 dev", "LoCoMo turns")


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of what is wanted; ``met`` is None when ours was not measured."""

    text: str
    met: bool | None


def best_baseline(rows: Sequence[Measured], kinds: Sequence[str] | None = None) -> Measured | None:
    """The method that is not ours with the highest recall@10 (over these kinds of questions)."""
    others = [row for row in rows if not row.method.startswith(OURS)]
    return max(others, key=lambda row: row.mean("recall_10", kinds)) if others else None


def ours(rows: Sequence[Measured]) -> Measured | None:
    """Our method, if it was measured."""
    return next((row for row in rows if row.method == OURS), None)


def table(rows: Sequence[Measured]) -> str:
    """Methods of one set beside each other; the interval is that of recall@10 minus that of the best baseline."""
    head = ["method", "R@5", "R@10", "MRR", "nDCG@10", "p50 ms", "tokens@5", "gate P/R/kept out", "R@10 - best [95 %]"]
    best = best_baseline(rows)
    lines = [head]
    for row in rows:
        line = [row.method, *(f"{row.mean(name):.3f}" for name in MEASURES)]
        line += [f"{row.median_milliseconds:.2f}", f"{row.mean_tokens:.0f}", _gate(row)]
        line.append("-" if best is None or row is best else _interval(paired(row, best)))
        lines.append(line)
    return _aligned(lines)


MEASURES = ("recall_5", "recall_10", "reciprocal_rank", "ndcg_10")


def kinds_table(rows: Sequence[Measured]) -> str:
    """Recall@10 of each kind of question; empty where a set has one kind only."""
    kinds = rows[0].kinds
    if len(kinds) < 2:
        return ""
    counts = [f"{kind} ({len(rows[0].values('recall_10', [kind]))})" for kind in kinds]
    lines = [["R@10", *counts]]
    lines += [[row.method, *(f"{row.mean('recall_10', [kind]):.3f}" for kind in kinds)] for row in rows]
    return _aligned(lines)


def paired(one: Measured, other: Measured, kinds: Sequence[str] | None = None) -> Interval:
    """The difference of recall@10 of two methods over the same questions, with its bootstrap interval."""
    return paired_interval(one.values("recall_10", kinds), other.values("recall_10", kinds))


def goals(results: Sequence[Sequence[Measured]]) -> list[Goal]:
    """The lines of the goal for all sets that were measured, one after the other."""
    told: list[Goal] = []
    for rows in results:
        best, mine = best_baseline(rows), ours(rows)
        if best is None:
            continue
        name = best.set_name
        told.append(_compared(f"{name}: R@10 at most 1 point below the best baseline", mine, best, -ALLOWED_LOSS))
        if name in ABOVE_ALL:
            goal = _compared(f"{name}: R@10 above all baselines", mine, best, 0.0)
            above = mine is not None and mine.mean("recall_10") > best.mean("recall_10")
            told.append(Goal(goal.text, above if mine is not None else None))
        if set(HARD_KINDS) <= set(best.kinds):
            hard = best_baseline(rows, HARD_KINDS)
            assert hard is not None
            text = f"{name}: R@10 on time, tag and multi-hop questions together 5 points above the best baseline"
            told.append(_compared(text, mine, hard, HARD_GAIN, HARD_KINDS))
    return told


def _compared(
    text: str, mine: Measured | None, best: Measured, wanted: float, kinds: Sequence[str] | None = None
) -> Goal:
    if mine is None:
        return Goal(f"{text} ({best.method} {best.mean('recall_10', kinds):.3f})", None)
    got = paired(mine, best, kinds)
    told = f"{mine.mean('recall_10', kinds):.3f}, {best.method} {best.mean('recall_10', kinds):.3f}, {_interval(got)}"
    return Goal(f"{text} ({told})", got.mean >= wanted - 1e-12)


def goal_lines(told: Sequence[Goal]) -> str:
    """Each goal with what became of it."""
    words = {True: "met", False: "MISSED", None: "not measured"}
    return "\n".join(f"{words[goal.met]:>12}  {goal.text}" for goal in told)


def _gate(row: Measured) -> str:
    judged = row.gate()
    if judged is None:
        return "-"
    figures = (judged.precision, judged.recall, judged.kept_out)
    return " / ".join("-" if isnan(figure) else f"{figure:.3f}" for figure in figures)


def _interval(told: Interval) -> str:
    return f"{told.mean:+.3f} [{told.low:+.3f}, {told.high:+.3f}]"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if place else text.ljust(width) for place, (text, width) in enumerate(cells)
        ).rstrip()
        for cells in (list(zip(line, widths, strict=True)) for line in lines)
    )
