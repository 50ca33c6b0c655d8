"""A survey as the server stores it (structured) and as a model reads it (text)."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Any

from folder_digest.survey import File, Survey

_UNITS = ("B", "KiB", "MiB", "GiB")


def data(found: Survey, top: int, zone: tzinfo) -> dict[str, Any]:
    """The digest as JSON; times are ISO 8601 in ``zone``, sizes bytes."""
    return {
        "files": len(found.files),
        "folders": found.folders,
        "bytes": found.size,
        "sha256": found.digest,
        "skipped": {"links": found.links, "hidden": found.hidden, "unreadable": found.unreadable},
        "kinds": dict(found.kinds()[:top]),
        "newest": [
            {"path": file.path, "bytes": file.size, "modified": _time(file, zone), "sha256": file.sha256}
            for file in _newest(found, top)
        ],
        "largest": [{"path": file.path, "bytes": file.size} for file in _largest(found, top)],
        "longest_texts": [{"path": file.path, "characters": file.characters} for file in _longest(found, top)],
        "duplicates": [
            {"bytes": group[0].size, "sha256": group[0].sha256, "paths": [file.path for file in group[:top]]}
            for group in found.duplicates()[:top]
        ],
    }


def text(shown: str, found: Survey, top: int, zone: tzinfo) -> str:
    """The digest for a model or a person, in Chinese and English."""
    lines = [
        f"目录摘要 / Folder digest: {shown}",
        f"文件 / files: {len(found.files)}，目录 / folders: {found.folders}，大小 / size: {_size(found.size)}",
        f"SHA-256: {found.digest}",
    ]
    if passed_over := found.links + found.hidden + found.unreadable:
        lines.append(
            f"略过 / skipped: {passed_over} (链接 / links {found.links}, 隐藏 / hidden {found.hidden}, "
            f"无法读取 / unreadable {found.unreadable})"
        )
    if found.files:
        kinds = ", ".join(f"{kind} {count}" for kind, count in found.kinds()[:top])
        lines.append(f"类型 / kinds: {kinds}")
        lines += ["最近修改 / newest:", *(f"- {_time(file, zone)} {file.path}" for file in _newest(found, top))]
        lines += ["最大 / largest:", *(f"- {_size(file.size)} {file.path}" for file in _largest(found, top))]
    if longest := _longest(found, top):
        lines += ["最长文本（字符）/ longest texts (characters):"]
        lines += [f"- {file.characters} {file.path}" for file in longest]
    if duplicates := found.duplicates():
        lines.append(f"重复文件 / duplicates: {len(duplicates)}")
        lines += [
            f"- {_size(group[0].size)}: {' = '.join(file.path for file in group[:top])}" for group in duplicates[:top]
        ]
    return "\n".join(lines)


def _newest(found: Survey, top: int) -> list[File]:
    return sorted(found.files, key=lambda file: (-file.modified, file.path))[:top]


def _largest(found: Survey, top: int) -> list[File]:
    return sorted(found.files, key=lambda file: (-file.size, file.path))[:top]


def _longest(found: Survey, top: int) -> list[File]:
    texts = [file for file in found.files if file.characters]
    return sorted(texts, key=lambda file: (-(file.characters or 0), file.path))[:top]


def _time(file: File, zone: tzinfo) -> str:
    return datetime.fromtimestamp(int(file.modified), zone).isoformat()


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 1024 and unit + 1 < len(_UNITS):
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
