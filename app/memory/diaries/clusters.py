"""Files of thought clusters: notebooks whose names end with 簇 (memory.md 1.7, ThoughtClusterManager)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from app.config.durable import create_atomic
from app.errors import VcpError
from app.memory.diaries.edits import check_target, edit_folders
from app.memory.diaries.files import MAX_ATTEMPTS, NOTE_MODE, DiaryError, notebook_folder
from app.memory.diaries.notebooks import NoSuchNoteError, existing_notebook, notebooks
from app.memory.diaries.permissions import NotPermittedError, read_permissions
from app.memory.diaries.requests import MAX_CONTENT_BYTES, text_argument
from app.protocol.blanks import BLANKS
from app.protocol.diary import safe_folder
from app.protocol.half_characters import whole

CLUSTER_SUFFIX = "簇"
MAX_STEPS = 100

_BLANK_RUN = re.compile(f"[{BLANKS}]+")


class StepsFailedError(DiaryError):
    """Not all steps of a call succeeded; the message says what became of each."""

    def __init__(self, report: str) -> None:
        VcpError.__init__(self, report)


def run_clusters(arguments: Mapping[str, object], home: Path, root: Path, now: datetime) -> str:
    """Carry out one command, or ``command1``, ``command2`` … one after the other; a step that fails stops no other.

    Returns what became of each step. Raises StepsFailedError unless all of them succeed, DiaryError.
    """
    if text_argument(arguments, "command").strip():
        return _run(arguments, home, root, now, "")
    if not text_argument(arguments, "command1").strip():
        raise DiaryError(
            "缺少参数 command：CreateClusterFile 或 EditClusterFile",
            "command is missing: CreateClusterFile or EditClusterFile",
        )
    lines: list[str] = []
    succeeded = True
    for number in range(1, MAX_STEPS + 1):
        if not text_argument(arguments, f"command{number}").strip():
            break
        try:
            said = _run(arguments, home, root, now, str(number))
        except (VcpError, OSError) as error:
            said, succeeded = f"失败 / failed: {error}", False
        lines.append(f"[{number}] {said}")
    report = "\n".join(lines)
    if not succeeded:
        raise StepsFailedError(report)
    return report


def _run(arguments: Mapping[str, object], home: Path, root: Path, now: datetime, number: str) -> str:
    command = text_argument(arguments, f"command{number}").strip().lower()
    if command == "createclusterfile":
        return _create(arguments, home, root, now, number)
    if command == "editclusterfile":
        return _edit(arguments, home, root, number)
    raise DiaryError(
        f"未知的 command{number} {command[:40]!r}，可用：CreateClusterFile、EditClusterFile",
        f"unknown command{number} {command[:40]!r}; there are CreateClusterFile and EditClusterFile",
    )


def _create(arguments: Mapping[str, object], home: Path, root: Path, now: datetime, number: str) -> str:
    name = _cluster_name(text_argument(arguments, f"clusterName{number}"), number)
    content = text_argument(arguments, f"content{number}")
    data = content.encode("utf-8")
    if not content.strip():
        raise DiaryError(f"缺少参数 content{number}", f"content{number} is missing")
    if len(data) > MAX_CONTENT_BYTES:
        raise DiaryError(f"内容超过 {MAX_CONTENT_BYTES} 字节", f"the content is over {MAX_CONTENT_BYTES} bytes")
    read_permissions(home).check_write(_agent(arguments), name)
    folder = notebook_folder(root, name)
    moment = now.astimezone(UTC)
    stem = f"{moment:%Y-%m-%dT%H-%M-%S}-{moment.microsecond // 1000:03d}Z"
    for attempt in range(1, MAX_ATTEMPTS + 1):
        target = folder / (f"{stem}.md" if attempt == 1 else f"{stem}_{attempt}.md")
        if create_atomic(target, data, NOTE_MODE):
            return f"已创建 / created: {target}"
    raise DiaryError("文件名都已被占用，请稍后再试", "all names of this moment are taken: try again")


def _edit(arguments: Mapping[str, object], home: Path, root: Path, number: str) -> str:
    target = text_argument(arguments, f"targetText{number}")
    check_target(target)
    replacement = arguments.get(f"replacementText{number}")
    if not isinstance(replacement, str):
        raise DiaryError(
            f"缺少参数 replacementText{number}（可以为空文本）",
            f"replacementText{number} is missing; it may be an empty text",
        )
    named = text_argument(arguments, f"clusterName{number}").strip()
    if named:
        folders = [existing_notebook(root, _cluster_name(named, number))]
    else:
        folders = [root / name for name in notebooks(root) if name.endswith(CLUSTER_SUFFIX)]
    if not folders:
        raise NoSuchNoteError(
            "还没有任何思维簇（名称以“簇”结尾的日记本）", "there is no notebook whose name ends with 簇"
        )
    permissions = read_permissions(home)
    allowed = [folder for folder in folders if permissions.may_write(_agent(arguments), folder.name)]
    if not allowed:
        raise NotPermittedError("这些思维簇不能修改", "these clusters may not be changed")
    return f"已修改 / edited: {edit_folders(root, allowed, target, whole(replacement))}"


def _cluster_name(name: str, number: str) -> str:
    name = _BLANK_RUN.sub("", name)
    if not name.endswith(CLUSTER_SUFFIX) or name == CLUSTER_SUFFIX:
        raise DiaryError(
            f"clusterName{number} 必须以“簇”结尾：{name[:40]!r}", f"clusterName{number} must end with 簇: {name[:40]!r}"
        )
    safe = safe_folder(name)
    if not safe.endswith(CLUSTER_SUFFIX):  # it was cut to the longest name there can be
        raise DiaryError(f"clusterName{number} 太长", f"clusterName{number} is too long")
    return safe


def _agent(arguments: Mapping[str, object]) -> str:
    return text_argument(arguments, "maid", "maidName", "Maid", "MAID").strip()
