"""``python -m bench.memory.diary_set``: what the sets hold; with ``--write FOLDER`` the diaries of one as files."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.memory.diary_set import CLASSES, DiarySet, generate

SEEDS = {1: "for tuning", 2: "for figures"}
SHOWN = 4


def summary(made: DiarySet, use: str) -> str:
    """Its digest, sizes, and some questions of each class."""
    lengths = sorted(len(note.text) for note in made.notes)
    notebooks = Counter(note.notebook for note in made.notes)
    lines = [f"## Seed {made.seed}, {use}", ""]
    lines.append(f"- SHA-256 `{made.digest()}`, asked at {made.now.isoformat()}")
    lines.append(
        f"- {len(made.notes)} entries of {lengths[0]} to {lengths[-1]} characters (half of them have up to "
        f"{lengths[len(lengths) // 2]}): " + ", ".join(f"{name} {count}" for name, count in notebooks.most_common())
    )
    lines += [
        f"- {len(made.questions)} questions",
        "",
        "| class | questions | answers each | such as |",
        "|---|---|---|---|",
    ]
    for kind in CLASSES:
        asked = [question for question in made.questions if question.kind == kind]
        answers = sum(len(question.gold) for question in asked) / len(asked)
        shown = "<br>".join(question.text for question in asked[:: len(asked) // SHOWN][:SHOWN])
        lines.append(f"| {kind} | {len(asked)} | {answers:.1f} | {shown} |")
    return "\n".join(lines)


def document() -> str:
    """The text of ``SUMMARY.md``."""
    head = "# The diary set\n\nWritten by `python -m bench.memory.diary_set`; a test compares it with the sets.\n"
    return "\n".join([head, *(summary(generate(seed), use) + "\n" for seed, use in SEEDS.items())])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the summary, or write the diaries of one seed."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory.diary_set", description=__doc__)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the diaries of the seed below FOLDER")
    options = parser.parse_args(arguments)
    if options.write:
        generate(options.seed).write(options.write)
    else:
        sys.stdout.write(document())


if __name__ == "__main__":
    main()
