"""EmojiListGenerator: writes the lists of the emoji packs, one file for each (vcp-core 0.2, 3.2, 9).

A pack is a folder ``image/X表情包`` of the installation; its list is the file ``X表情包.txt`` below
``Plugin/EmojiListGenerator/generated_lists/`` of the installation, the names of its pictures joined by ``|``. Lists
whose pack is gone are removed, but only those that an earlier run wrote: people may keep lists of their own.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

PACK_SUFFIX = "表情包"
PICTURES = (".jpg", ".jpeg", ".png", ".gif")
SEPARATOR = "|"
UNFIT = re.compile("[|\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

RECORD = ".written.json"
"""Beside the lists: the names of those that the last run wrote."""

MAX_PACKS = 1000
MAX_PICTURES = 20_000
MAX_RECORD_BYTES = 1024 * 1024


def say(text: str, *, error: bool = False) -> None:
    """One line in UTF-8, whatever the system's code page is (P44)."""
    stream = sys.stderr if error else sys.stdout
    stream.buffer.write(text.encode("utf-8", "replace") + b"\n")
    stream.buffer.flush()


def writable(name: str) -> bool:
    """Whether a name can stand in a list: it is text, and nothing in it ends an entry or a line."""
    return UNFIT.search(name) is None


def packs(images: Path) -> dict[str, list[str]]:
    """The pictures of every pack by name. Packs that lead out of ``images`` are left out: nobody serves them."""
    root = images.resolve()
    found: dict[str, list[str]] = {}
    for folder in sorted(images.iterdir()):
        if not folder.name.endswith(PACK_SUFFIX) or folder.name == PACK_SUFFIX or not writable(folder.name):
            continue
        if not folder.is_dir() or not folder.resolve().is_relative_to(root):
            continue
        if len(found) == MAX_PACKS:
            say(f"表情包超过 {MAX_PACKS} 个，其余略过 / more than {MAX_PACKS} packs, the rest is left out", error=True)
            break
        try:
            found[folder.name] = pictures(folder)
        except OSError as error:
            say(f"无法读取 {folder}：{error} / {folder} cannot be read: {error}", error=True)
    return found


def pictures(folder: Path) -> list[str]:
    """The names of a pack's pictures, sorted."""
    names = [
        entry.name
        for entry in folder.iterdir()
        if entry.suffix.lower() in PICTURES and not entry.name.startswith(".") and writable(entry.name)
    ]
    return sorted(name for name in names if (folder / name).is_file())[:MAX_PICTURES]


def replace(path: Path, text: str) -> None:
    """Write the file whole, and only if it says something else."""
    from app.config.durable import write_atomic

    data = text.encode()
    if not (path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data):
        write_atomic(path, data)


def written_before(lists: Path) -> set[str]:
    """The names of the lists that the last run wrote; none where that is not known."""
    try:
        with (lists / RECORD).open("rb") as file:
            names = json.loads(file.read(MAX_RECORD_BYTES))
    except (OSError, ValueError, RecursionError):
        return set()
    if not isinstance(names, list):
        return set()
    return {
        name for name in names if isinstance(name, str) and name.endswith(PACK_SUFFIX) and not set(name) & set("/\\\0")
    }


def generate(home: Path) -> tuple[int, bool]:
    """Bring the lists up to date: how many there are, and whether all could be written. Raises OSError."""
    images = home / "image"
    lists = home / "Plugin" / "EmojiListGenerator" / "generated_lists"
    found = packs(images) if images.is_dir() else {}
    lists.mkdir(parents=True, exist_ok=True)
    written: list[str] = []
    for name, names in found.items():
        try:
            replace(lists / f"{name}.txt", SEPARATOR.join(names))
            written.append(name)
        except OSError as error:
            say(f"列表 {name} 没有写入：{error} / the list {name} was not written: {error}", error=True)
    for gone in written_before(lists) - found.keys():
        (lists / f"{gone}.txt").unlink(missing_ok=True)
    replace(lists / RECORD, json.dumps(written, ensure_ascii=False))
    return len(written), len(written) == len(found)


def main() -> int:
    """Write the lists; returns the exit code."""
    home = os.environ.get("PROJECT_BASE_PATH", "")
    if not Path(home).is_absolute():
        say("未设置 PROJECT_BASE_PATH / PROJECT_BASE_PATH is not set", error=True)
        return 1
    try:
        count, complete = generate(Path(home))
    except ImportError as error:
        say(
            f"EmojiListGenerator 需要用运行服务器的 Python 解释器启动（缺少 {error.name}）/ "
            f"EmojiListGenerator must be run by the interpreter that runs the server ({error.name} cannot be imported)",
            error=True,
        )
        return 1
    except OSError as error:
        say(f"表情包列表没有写入：{error} / the emoji lists were not written: {error}", error=True)
        return 1
    say(f"表情包列表：{count} 个 / emoji lists: {count}")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
