"""What is where in an installation, and what this server does with it (spec 0.2)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.config.home_folders import home_folders
from app.errors import both
from app.home.checks.findings import Finding, Installation, Level, Topic, entries

MAX_COUNTED = 1_000_000
"""Files of a folder that are counted at most."""

READ_LIVE = both("每次对话时读取", "read anew for every chat")
USED = both("使用", "used")
LEFT_ALONE = both("本版本不使用，也不会改动", "not used by this version, and left alone")
MADE_OF_NOTES = both("由日记得出的索引和向量，可随时重建", "index and vectors, made from the notes")
DELETED = both(
    "已删除的日记和提示词文件，保留 MemoryTrashDays 天", "deleted notes and prompt files, kept for MemoryTrashDays"
)
NOT_NEEDED = both("旧程序的文件，不使用", "files of the old program, not used")

_FOLDERS = (
    ("Agent", USED),
    ("TVStxt", USED),
    ("Plugin", USED),
    ("knowledge", USED),
    ("memory", USED),
    (".vcp/memory", MADE_OF_NOTES),
    (".vcp/trash", DELETED),
    (
        "VectorStore",
        both("旧索引；vcp memory import 可沿用其中的向量", "an older index; vcp memory import takes its vectors over"),
    ),
    ("image", USED),
    ("file", USED),
    ("VCPAsyncResults", USED),
    ("VCPTimedContacts", USED),
    ("VCPTimedResults", USED),
    ("Plugin/VCPTavern/presets", USED),
    ("Plugin/EmojiListGenerator/generated_lists", USED),
    ("ToolConfigs", LEFT_ALONE),
    (".file_cache", USED),
    ("DebugLog", both("日志", "logs")),
    ("AdminPanel", NOT_NEEDED),
    ("node_modules", both("仅供 Node 插件使用", "only for plugins that run in Node")),
)


@dataclass(frozen=True, slots=True)
class FolderCount:
    """A folder of the installation: its own folders, the files anywhere below, and what becomes of them."""

    name: str
    folders: int
    files: int
    meaning: str


def count_folders(installation: Installation) -> tuple[FolderCount, ...]:
    """The known folders that exist."""
    folders = [(installation.notebooks_name, READ_LIVE), *_FOLDERS]
    return tuple(
        _counted(installation.home / name, name, meaning)
        for name, meaning in folders
        if (installation.home / name).is_dir()
    )


def check_folders(installation: Installation) -> Iterator[Finding]:
    """Findings about the folders themselves."""
    home = installation.home
    for name in home_folders(home, installation.config.notebooks):
        folder = home / name
        if not folder.exists():
            yield Finding(
                Level.NOTE,
                Topic.FOLDERS,
                "目录不存在，启动时会创建",
                "the folder does not exist; it is made at the start",
                f"{name}/",
            )
        elif not folder.is_dir():
            yield Finding(Level.ERROR, Topic.FOLDERS, "不是目录", "is no folder", name)
        elif not os.access(folder, os.R_OK | os.X_OK):
            yield Finding(Level.ERROR, Topic.FOLDERS, "没有读取权限", "may not be read", f"{name}/")
    notebooks = installation.config.notebooks
    if home not in notebooks.parents and not notebooks.is_dir():
        yield Finding(
            Level.WARNING,
            Topic.FOLDERS,
            "日记目录不存在，且不会自动创建",
            "the folder of the notebooks is not there, and it is not made",
            str(notebooks),
            subject="KNOWLEDGEBASE_ROOT_PATH",
        )
    for entry in entries(notebooks):
        if entry.is_symlink() and entry.is_dir() and notebooks.resolve() not in Path(entry.path).resolve().parents:
            yield Finding(
                Level.WARNING,
                Topic.FOLDERS,
                "指向日记目录之外的链接，不会读取",
                "a link that leads out of the folder of notebooks; it is not read",
                f"{installation.notebooks_name}/{entry.name}",
            )


def _counted(path: Path, name: str, meaning: str) -> FolderCount:
    folders = sum(1 for entry in entries(path) if entry.is_dir(follow_symlinks=False))
    files = 0
    for _, _, names in os.walk(path):
        files += len(names)
        if files > MAX_COUNTED:
            break
    return FolderCount(name, folders, min(files, MAX_COUNTED), meaning)
