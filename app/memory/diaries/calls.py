"""One call of a diary tool: the arguments on standard input, the answer on standard output (memory.md 1.5, 1.6)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType

from app.memory.diaries.files import DiaryError
from app.memory.diaries.requests import MAX_INPUT_BYTES, read_arguments


def answer_call(run: Callable[[Mapping[str, object]], Mapping[str, object]]) -> int:
    """Read the arguments, ``run`` them and print the fields that it gives, or why nothing was stored.

    Returns the exit code: 1 when nothing was stored or changed. ``run`` may raise DiaryError and OSError.
    """
    try:
        _print({"status": "success", **run(read_arguments(sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)))})
    except DiaryError as error:
        return _fail(error.message, error.fields())
    except UnicodeEncodeError as error:
        return _fail(
            f"系统编码写不出这个文件名（{error.object[error.start : error.end]!r}），请设置 PYTHONUTF8=1 / "
            f"the system's encoding cannot write this file name ({error.encoding}): set PYTHONUTF8=1"
        )
    except OSError as error:
        return _fail(f"日记没有保存：{error} / the diary was not saved: {error}")
    return 0


def _fail(message: str, further: Mapping[str, str] = MappingProxyType({})) -> int:
    """The text stands in both fields that readers of plugin answers know."""
    _print({"status": "error", "error": message, "message": message, **further})
    return 1


def _print(fields: Mapping[str, object]) -> None:
    """The one answer in UTF-8, whatever the system's code page is (P44)."""
    sys.stdout.buffer.write((json.dumps(fields, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
