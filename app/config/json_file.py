"""JSON files of the operator: forgiving where nothing is lost, and clear about what is wrong and where (D73)."""

from __future__ import annotations

import json
from pathlib import Path

from app.config.problem import Problem
from app.config.small_file import read_small
from app.errors import VcpError, both
from app.extend import Json
from app.protocol.tolerant_json import tolerant_json


class JsonFileError(VcpError):
    """The file cannot be used at all; ``line`` says where, if it is known. Each kind of file has a subclass."""

    code = "json_file"

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def whole_file(path: Path, limit: int, error: type[JsonFileError]) -> bytes | None:
    """The content of a file, None where there is none; raises ``error`` when it cannot be read or is too large."""
    try:
        data = read_small(path, limit + 1)
    except FileNotFoundError:
        return None
    except OSError as trouble:
        reason = trouble.strerror or str(trouble)
        raise error(both(f"无法读取：{reason}", f"cannot be read: {reason}")) from None
    if len(data) > limit:
        raise error(both(f"超过 {limit} 字节", f"is larger than {limit} bytes"))
    return data


def parsed(data: bytes, file: str, error: type[JsonFileError]) -> tuple[Json, list[Problem]]:
    """The value of a content, and what in it is no JSON; raises ``error`` when nothing can be read."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as trouble:
        line = data.count(b"\n", 0, trouble.start) + 1
        raise error(both("不是 UTF-8 编码", "is not UTF-8"), line) from None
    try:
        value, odd = tolerant_json(text)
    except json.JSONDecodeError as trouble:
        raise error(both(f"不是有效的 JSON（{trouble.msg}）", f"is no JSON: {trouble.msg}"), trouble.lineno) from None
    except (ValueError, RecursionError) as trouble:
        raise error(both(f"不是可用的 JSON（{trouble}）", f"is no usable JSON: {trouble}")) from None
    told = both("不属于 JSON，已忽略", "is no JSON and passed over")
    return value, [Problem(file, oddity.line, "", f"{told}: {oddity.what}") for oddity in odd]


def parsed_object(data: bytes, file: str, error: type[JsonFileError]) -> tuple[dict[str, Json], list[Problem]]:
    """The same for a file that must hold an object."""
    value, problems = parsed(data, file, error)
    if not isinstance(value, dict):
        raise error(both("应是一个 JSON 对象", "must be a JSON object"))
    return value, problems
