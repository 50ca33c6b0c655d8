"""``python -m bench``: the chat path beside a bare pass-through of bytes, in ratios of one run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.child import BenchError, run
from bench.comparison import Plan, Row, compare
from bench.sides import stage

FULL = Plan(connections=(1, 32, 256), seconds=1.5, repeats=5, paced_seconds=2.0, paced_repeats=5, full=True)
TINY = Plan(connections=(1, 2), seconds=0.05, repeats=1, paced_seconds=0.05, paced_repeats=1)


def table(rows: Sequence[Row]) -> str:
    """The rows as text; a ratio is the server's figure divided by that of the pass-through."""
    head = ("conn.", "case", "measured", "pass-through", "vcp-server", "unit", "ratio", "better")
    lines = [head]
    for row in rows:
        figures = (_figure(row.baseline), _figure(row.server), row.unit, _figure(row.ratio))
        lines.append((str(row.connections), row.case, row.what, *figures, row.better))
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    right = {0, 3, 4, 6}
    return "\n".join(
        "  ".join(
            text.rjust(width) if place in right else text.ljust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; exits with 1 when an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--full", action="store_true", help="longer, with more cases: placeholders, blocks, tool calls")
    how.add_argument(
        "--tiny", action="store_true", help="a few requests, to see that it works; its figures mean little"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    options = parser.parse_args(arguments)
    plan = FULL if options.full else TINY if options.tiny else Plan()
    began = time.perf_counter()
    rows: list[Row] = []

    async def work() -> None:
        async with stage() as processes:
            rows.extend(await compare(processes, plan, lambda text: print(f"measuring {text} ...", file=sys.stderr)))

    try:
        run(work())
    except BenchError as error:
        sys.exit(f"bench: {error}")
    print(table(rows))
    print(
        f"\nRatios are vcp-server / pass-through, medians of neighbouring measurements of this run; "
        f"{time.perf_counter() - began:.0f} s, {os.cpu_count()} cores, Python {platform.python_version()}."
    )
    if options.json:
        machine = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()}
        document = {"machine": machine, "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
