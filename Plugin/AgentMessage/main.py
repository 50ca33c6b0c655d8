"""AgentMessage: a message of an agent to the user, in the form that front ends show (vcp-core 5.8, 9).

One JSON object on stdin, one on stdout; only the standard library is used.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

MAX_INPUT_BYTES = 4 * 1024 * 1024
DEFAULT_ZONE = "Asia/Shanghai"


def answer(fields: dict[str, str]) -> None:
    """Print the one answer in UTF-8, whatever the system's code page is (P44)."""
    sys.stdout.buffer.write((json.dumps(fields, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def formatted(message: str, sender: str, moment: datetime) -> str:
    """The first line says when and who, the message follows as it was written."""
    head = f"{moment:%Y-%m-%d %H:%M:%S}" + (f" - {sender}" if sender else "")
    return f"{head}\n{message}"


def zone_of_now() -> ZoneInfo:
    """``DEFAULT_TIMEZONE``, or the default with a warning."""
    name = os.environ.get("DEFAULT_TIMEZONE", "").strip() or DEFAULT_ZONE
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        print(f"AgentMessage: DEFAULT_TIMEZONE={name!r} is not a time zone; {DEFAULT_ZONE} is used", file=sys.stderr)
        return ZoneInfo(DEFAULT_ZONE)


def main() -> int:
    """Run one call; returns the exit code."""
    data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    try:
        if len(data) > MAX_INPUT_BYTES:
            raise ValueError(f"消息超过 {MAX_INPUT_BYTES} 字节 / the message is over {MAX_INPUT_BYTES} bytes")
        arguments = json.loads(data.decode("utf-8-sig")) if data.strip() else {}
        message = arguments.get("message") if isinstance(arguments, dict) else None
        if not isinstance(message, str) or not message.strip():
            raise ValueError("缺少参数 message / message is missing or blank")
    except (ValueError, RecursionError) as error:
        answer({"status": "error", "error": str(error), "message": str(error)})
        return 1
    names = (arguments.get(name) for name in ("Maid", "maid", "MAID", "maidName"))
    sender = next((name for name in names if isinstance(name, str) and name.strip()), "")
    text = formatted(message, " ".join(sender.split()), datetime.now(zone_of_now()))
    answer({"status": "success", "result": text})
    return 0


if __name__ == "__main__":
    sys.exit(main())
