"""From a trace back to a request: to send it again, or to show how."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import BadRequestError, both
from app.extend import Json
from app.protocol.secret_texts import MASK

DIGEST = "[sha256 "
CUT = "… (+"


@dataclass(frozen=True, slots=True)
class Repeatable:
    """A request as the client sent it, as far as the trace has it.

    ``lacks`` says what is not the same: ``pictures`` and other media were left out, ``cut`` texts are shorter,
    ``masked`` secrets are masks.
    """

    body: dict[str, Any]
    lacks: tuple[str, ...]


def request_of(document: Mapping[str, Any]) -> Repeatable:
    """The request of a chat's trace; raises BadRequestError when the trace has no texts."""
    prompt = document.get("prompt")
    if document["kind"] != "turn" or document["detail"] != "full" or not prompt:
        raise BadRequestError(
            both(
                "这条追踪没有保存提示词，无法重放（需要 Traces=full，且请求已完成准备）",
                "this trace holds no prompt, so it cannot be repeated (that needs Traces=full and a finished prompt)",
            )
        )
    messages = [_without_media(message) for message in prompt["before"]]
    written = json.dumps(messages, ensure_ascii=False)
    lacks = {
        "pictures": any(one != other for one, other in zip(messages, prompt["before"], strict=True)),
        "cut": bool(prompt["left_out"]) or CUT in written,
        "masked": MASK in written,
    }
    body = {**prompt["request"], "messages": messages}
    return Repeatable(body, tuple(name for name, true in lacks.items() if true))


def curl_of(body: Mapping[str, Json], address: str) -> str:
    """A command for a POSIX shell that sends the body; the key is a variable ``KEY`` of that shell."""
    text = json.dumps(body, ensure_ascii=False, indent=1)
    lines = (
        f"curl -N {shlex.quote(address + '/v1/chat/completions')}",
        '-H "Authorization: Bearer $KEY"',
        "-H 'Content-Type: application/json'",
        f"-d {shlex.quote(text)}",
    )
    return " \\\n  ".join(lines)


def _without_media(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message without parts of which the trace has a digest only."""
    content = message.get("content")
    if not isinstance(content, list):
        return dict(message)
    kept = [part for part in content if DIGEST not in json.dumps(part, ensure_ascii=False)]
    return {**message, "content": kept or ""}
