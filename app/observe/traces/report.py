"""What of a trace may be shown to strangers: times, counts, kinds. No texts, keys, names of people or machines."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping
from typing import Any

from app import __version__
from app.errors import both
from app.extend import ErrorKind

MAX_NAME = 100
MAX_LINES = 200
"""Calls, phases and rounds that are listed, each."""


_FINISHES = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter"})


def report_of(document: Mapping[str, Any]) -> str:
    """The report as Markdown. Whatever a person, a model or a tool has written is left out, errors too."""
    tokens = document["tokens"]
    lines = [
        f"# {both('追踪报告（不含提示词、密钥和地址）', 'Trace report (no prompts, keys or addresses)')}",
        "",
        f"- vcp-server {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        f"- kind: {document['kind']}; outcome: {document['outcome']}; stream: {document.get('stream', False)}",
        f"- model: {_line(document['model']) or '-'}",
        f"- duration: {_ms(document['duration'])}; depth: {document.get('depth', 0)}; detail: {document['detail']}",
        f"- tokens: {tokens['prompt_tokens']} prompt, {tokens['completion_tokens']} completion, "
        f"{tokens['total_tokens']} total",
        f"- prompt: {_prompt(document)}",
    ]
    if document["events_left_out"]:
        lines.append(f"- events left out: {document['events_left_out']}")
    lines += _section(
        "Phases",
        [
            f"{phase['name']}: {_ms(phase['start'])} + {_ms(phase['end'] - phase['start'])}, "
            f"{phase['pieces_before']} -> {phase['pieces_after']} pieces"
            for phase in document["phases"]
        ],
    )
    lines += _section("Rounds", [_round(one) for one in document["rounds"]])
    lines += _section("Tool calls", [_call(call) for call in document["calls"]])
    reasons = Counter(one["why"] for one in document["skipped"])
    lines += _section("Skipped calls", [f"{why}: {count}" for why, count in sorted(reasons.items())])
    lines += _section("Recall", [_recall(one) for one in document["recall"]])
    return "\n".join(lines) + "\n"


def _section(title: str, items: list[str]) -> list[str]:
    if not items:
        return []
    more = [f"- … {len(items) - MAX_LINES} more"] if len(items) > MAX_LINES else []
    return ["", f"## {title}", "", *(f"- {item}" for item in items[:MAX_LINES]), *more]


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.1f} ms"


def _line(name: str) -> str:
    """A name as a part of one line."""
    return " ".join(name[:MAX_NAME].split())


def _prompt(document: Mapping[str, Any]) -> str:
    prompt = document["prompt"]
    if not prompt:
        return "-"
    sizes: dict[str, int] = {}
    for origin in prompt["origins"]:
        for _, trust, chars in origin["runs"]:
            sizes[trust] = sizes.get(trust, 0) + chars
    parts = ", ".join(f"{chars} characters of trust {trust}" for trust, chars in sorted(sizes.items()))
    return f"{len(prompt['before'])} messages in, {len(prompt['after'])} out; {parts or 'no text'}"


def _round(one: Mapping[str, Any]) -> str:
    end = one["end"]
    return (
        f"round {one['number']}: asked at {_ms(one['start'])}, answered {_ms(one.get('answered'))}, "
        f"first token {_ms(one.get('first_token'))}, ended {_ms(end)}, finish {_known(one.get('finish_reason'))}"
    )


def _known(finish: str | None) -> str:
    return finish if finish in _FINISHES else "other" if finish else "-"


def _call(call: Mapping[str, Any]) -> str:
    place = call.get("place") or {}
    tool = "(unknown tool)" if call.get("error_kind") == ErrorKind.UNKNOWN_TOOL else _line(call["tool"])
    state = call.get("outcome", "running")
    kind = f" ({call['error_kind']})" if call.get("error_kind") else ""
    return (
        f"{tool} by {call.get('door', '-')} {place.get('kind') or '-'}: {state}{kind}, "
        f"found {_ms(call['found'])}, waited {_ms(call.get('waited'))}, ran {_ms(call.get('ran'))}"
        f"{', eager' if call.get('eager') else ''}{', archery' if call.get('archery') else ''}"
    )


def _recall(one: Mapping[str, Any]) -> str:
    results = one.get("results")
    scores = [hit.get("score") for hit in results if isinstance(hit, Mapping)] if isinstance(results, list) else []
    shown = ", ".join(f"{score:.3f}" for score in scores[:20] if isinstance(score, int | float))
    return f"{one.get('type', '-')}: {len(scores)} hits, scores {shown or '-'}"
