"""``vcp memory bench``: how well and how quickly your notes are found (memory.md 11.30)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from app.cli.options import Commands, home_option
from app.cli.server_answers import show_answer
from app.errors import both
from app.extend import Json

ANSWER_SECONDS = 3600.0
COLUMNS = ("recall@5", "recall@10", "mrr")


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("测量日记能否被检索到，以及速度", "measure how well and how quickly notes are found")
    more = both(
        "以日记自己的句子提问；询问该安装目录中正在运行的服务器，不改变任何东西",
        "sentences of the notes are the questions; the server that runs in this home is asked; nothing is changed",
    )
    parser = commands.add_parser("bench", parents=[home_option()], help=text, description=f"{text}. {more}.")
    parser.add_argument(
        "--questions", type=int, default=100, help=both("每类问题的数量，至多 500", "questions of each kind, up to 500")
    )
    parser.add_argument("--seed", type=int, default=1, help=both("抽样的种子", "which sentences are taken"))
    parser.add_argument("--json", action="store_true", help=both("输出 JSON", "print JSON"))
    parser.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> int:
    body = {"questions": options.questions, "seed": options.seed}
    return show_answer(options, "/v1/memory/bench", body, _lines, seconds=ANSWER_SECONDS)


def _lines(answer: Mapping[str, Json]) -> Iterator[str]:
    """A table for people."""
    yield f"{both('日记', 'notes')}: {answer.get('notes')}"
    if answer.get("wordsOnly"):
        yield both("没有向量，仅测量词语检索", "there are no vectors: words alone are measured")
    rows = answer.get("rows")
    if not isinstance(rows, list) or not rows:
        yield both("日记中没有可用作问题的句子", "no sentence of the notes can be a question")
        return
    yield f"{'questions':10} {'way':8} {'count':>6} " + " ".join(f"{name:>9}" for name in COLUMNS) + "  p50 ms  p95 ms"
    for row in rows:
        if isinstance(row, Mapping):
            figures = " ".join(f"{row.get(name):>9}" for name in COLUMNS)
            yield (
                f"{row.get('questions'):10} {row.get('way'):8} {row.get('count'):>6} {figures} "
                f"{row.get('p50'):>7} {row.get('p95'):>7}"
            )
