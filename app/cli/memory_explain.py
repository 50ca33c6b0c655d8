"""``vcp memory explain``: what declarations become for a question, and why (memory.md 11.29)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from app.cli.options import Commands, home_option
from app.cli.server_answers import show_answer
from app.cli.terminal import printable
from app.errors import both
from app.extend import Json

SHOWN_CHARS = 100
SHOWN_DROPPED = 20


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("解释一条日记声明会变成什么", "explain what a declaration of a notebook becomes")
    more = both(
        "询问该安装目录中正在运行的服务器，不改变任何东西",
        "the server that runs in this home is asked; nothing is changed",
    )
    parser = commands.add_parser("explain", parents=[home_option()], help=text, description=f"{text}. {more}.")
    parser.add_argument(
        "declaration",
        help=both(
            "提示词，例如 [[小克日记本::Time]] 或 {{Nova}}", "a prompt, such as [[Nova日记本::Time]] or {{Nova}}"
        ),
    )
    parser.add_argument("question", nargs="?", default="", help=both("用户的话", "what the person says"))
    parser.add_argument("--json", action="store_true", help=both("输出 JSON", "print JSON"))
    parser.set_defaults(run=_explain)


def _explain(options: argparse.Namespace) -> int:
    body = {"declaration": options.declaration, "question": options.question}
    return show_answer(options, "/v1/memory/explain", body, _lines)


def _lines(answer: Mapping[str, Json]) -> Iterator[str]:
    """The answer for people."""
    question = answer.get("question")
    if isinstance(question, Mapping):
        for span in _list(question.get("timeRanges")):
            yield f"{both('时间范围', 'days')}: {span.get('first')} ~ {span.get('last')}"
    declarations = _list(answer.get("declarations"))
    if not declarations:
        yield both("没有找到任何声明", "there is no declaration")
    for declaration in declarations:
        yield ""
        became = f"{declaration.get('outcome')}, {declaration.get('tokens')} token"
        yield f"{_shown(declaration.get('declaration'))}  →  {became}"
        for warning in declaration.get("warnings") or ():
            yield f"  {both('未知修饰符', 'unknown modifier')}: {_shown(warning)}"
        if declaration.get("why"):
            yield f"  {_shown(declaration['why'])}"
        for gate in _list(declaration.get("gates")):
            yield (
                f"  {both('门控', 'gate')} {_shown(gate.get('notebook'))}: {_number(gate.get('value'))} "
                f"({gate.get('by')}) / {_number(gate.get('threshold'))}"
            )
        for note in declaration.get("notes") or ():
            yield f"  {_shown(note)}"
        for hit in _list(declaration.get("hits")):
            parts = hit.get("parts")
            scores = ", ".join(f"{name} {_number(value)}" for name, value in sorted(parts.items())) if parts else ""
            yield f"  + {_number(hit.get('score'))} [{hit.get('source')}] {_shown(hit.get('path'))} ({scores})"
            yield f"      {_shown(hit.get('text'))}"
        for dropped in _list(declaration.get("dropped"))[:SHOWN_DROPPED]:
            yield f"  - {_number(dropped.get('score'))} #{dropped.get('chunk')}: {_shown(dropped.get('reason'))}"
        chain = declaration.get("chain")
        for stage in _list(chain.get("stages") if isinstance(chain, Mapping) else None):
            counts = f"{stage.get('found')}/{stage.get('k')}"
            yield f"  {_shown(stage.get('cluster'))}: {counts} {_shown(stage.get('fault'))}"


def _list(value: object) -> Sequence[Mapping[str, Json]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _shown(value: object) -> str:
    text = printable(str(value or ""))
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def _number(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, int | float) else "-"
