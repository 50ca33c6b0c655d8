"""What the caller wants, checked: which folder, and how long the lists may be."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from folder_digest.failure import DigestError

MAX_INPUT_BYTES = 64 * 1024
DEFAULT_TOP = 10
MOST_TOP = 100

HIDDEN_FILES = frozenset({"config.env"})
"""Files that hold keys; nothing is told of them, nor of names that begin with a dot."""


@dataclass(frozen=True, slots=True)
class Request:
    """``folder`` is a real path below one of the roots, ``shown`` the name that the caller knows it by."""

    folder: Path
    shown: str
    top: int


def read_request(data: bytes, environ: Mapping[str, str]) -> Request:
    """The request in the JSON that the server wrote; raises DigestError."""
    arguments = _arguments(data)
    wanted = arguments.get("folder")
    if not isinstance(wanted, str) or not wanted.strip():
        raise DigestError("请用 folder 指明目录", "name the folder in the argument folder")
    wanted = wanted.strip().replace("\\", "/")
    if "\0" in wanted:
        raise DigestError("目录名含有 NUL", "the folder's name holds a NUL")
    roots = _roots(environ)
    try:
        folder = Path(os.path.realpath(roots[0] / wanted, strict=True))
    except (OSError, ValueError):
        folder = None
    # Whether something outside exists is nobody's business, so both cases are told alike.
    root = folder and next((root for root in roots if folder == root or root in folder.parents), None)
    if folder is None or root is None or not folder.is_dir():
        raise DigestError(
            f"{wanted!r} 不是允许范围内的目录；可用的根目录是安装目录和 FolderDigestRoots",
            f"{wanted!r} is no folder below the installation or one of FolderDigestRoots",
        )
    inner = folder.relative_to(root)
    if any(part.startswith(".") for part in inner.parts):
        raise DigestError("隐藏目录不做摘要", "hidden folders are not digested")
    return Request(folder, wanted, _top(arguments.get("top")))


def _arguments(data: bytes) -> Mapping[str, object]:
    if len(data) > MAX_INPUT_BYTES:
        raise DigestError("参数太长", "the arguments are too long")
    try:
        arguments = json.loads(data or b"{}")
    except (ValueError, RecursionError) as error:
        raise DigestError("参数不是 JSON", "the arguments are not JSON") from error
    if not isinstance(arguments, dict):
        raise DigestError("参数必须是对象", "the arguments must be an object")
    return arguments


def _roots(environ: Mapping[str, str]) -> list[Path]:
    home = environ.get("PROJECT_BASE_PATH", "")
    if not home:
        raise DigestError("缺少 PROJECT_BASE_PATH", "PROJECT_BASE_PATH is missing")
    more = [part.strip() for part in environ.get("FolderDigestRoots", "").replace("，", ",").split(",")]
    return [Path(os.path.realpath(root)) for root in (home, *more) if root and Path(root).is_absolute()]


def _top(value: object) -> int:
    if value in (None, ""):
        return DEFAULT_TOP
    try:
        top = int(str(value))
    except ValueError:
        top = 0
    if not 1 <= top <= MOST_TOP:
        raise DigestError(f"top 必须是 1 到 {MOST_TOP} 的整数", f"top must be a whole number from 1 to {MOST_TOP}")
    return top
