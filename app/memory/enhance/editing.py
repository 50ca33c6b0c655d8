"""The files of semantic groups, notebook tags and thinking chains as people and tools edit them (memory.md 1.7, 5.1).

What is stored here is in force at once: the files are read live. Functions block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.config.durable import write_atomic
from app.config.edited_file import LOCK_SECONDS, EditConflictError, fingerprint
from app.config.file_lock import held
from app.config.small_file import read_small
from app.errors import BadRequestError, both
from app.memory.enhance.documents import json_object
from app.memory.enhance.places import FILE_LIMIT, enhancement_folder
from app.protocol.half_characters import whole
from app.protocol.json_text import pretty_json

RAG_TAGS = "rag_tags.json"
GROUPS = "semantic_groups.json"
EDITED_GROUPS = "semantic_groups.edit.json"
CHAINS = "meta_thinking_chains.json"

LOCK = Path(".vcp") / "memory_files.lock"

Document = dict[str, object]


def rag_tags(home: Path) -> Document:
    """The tags of notebooks; empty without the file. Raises ValueError for a file that is no JSON object, OSError."""
    return _read(enhancement_folder(home) / RAG_TAGS) or {}


def save_rag_tags(home: Path, document: Mapping[str, object]) -> None:
    """Store them; BadRequestError for what is no object of notebooks, OSError."""
    for name, entry in document.items():
        if not isinstance(entry, dict | list):
            raise _refused(f"{name[:60]!r} 不是对象", f"{name[:60]!r} is no object of tags and threshold")
    _write(home, RAG_TAGS, document)


def groups(home: Path) -> Document:
    """The groups in force: those of the edit file where there is one. Raises ValueError, OSError."""
    folder = enhancement_folder(home)
    for name in (EDITED_GROUPS, GROUPS):
        found = _read(folder / name)
        if found is not None:
            return found
    return {"config": {}, "groups": {}}


def save_groups(home: Path, document: Mapping[str, object]) -> None:
    """Store groups in the edit file, which outranks the other; BadRequestError for what are none, OSError."""
    found = document.get("groups")
    if not isinstance(found, dict):
        raise _refused("缺少 groups 对象", "there is no object groups")
    for name, entry in found.items():
        fields = entry if isinstance(entry, dict) else {"words": entry}
        for key in ("words", "auto_learned"):
            if not _is_texts(fields.get(key, [])):
                raise _refused(
                    f"语义组 {name[:60]!r} 的 {key} 不是词语列表", f"{key} of group {name[:60]!r} is no list of words"
                )
    _write(home, EDITED_GROUPS, document)


def chains(home: Path) -> Document | None:
    """The thinking chains; None without the file. Raises ValueError, OSError."""
    return _read(enhancement_folder(home) / CHAINS)


def save_chains(home: Path, document: Mapping[str, object]) -> None:
    """Store chains; BadRequestError for what are none, OSError."""
    found = document.get("chains")
    if not isinstance(found, dict):
        raise _refused("缺少 chains 对象", "there is no object chains")
    for name, entry in found.items():
        clusters = entry.get("clusters") if isinstance(entry, dict) else entry
        if not _is_texts(clusters):
            raise _refused(f"思维链 {name[:60]!r} 没有簇的列表", f"chain {name[:60]!r} has no list of clusters")
    _write(home, CHAINS, document)


@dataclass(frozen=True, slots=True)
class EditedDocument:
    """One of these files as people edit it: ``names`` in the order in which they count; the first is written."""

    title: str
    names: tuple[str, ...]
    read: Callable[[Path], Document | None]
    save: Callable[[Path, Mapping[str, object]], None]

    def version(self, home: Path) -> tuple[str, str]:
        """The fingerprint and the text of the file in force, both empty without one; raises OSError."""
        folder = enhancement_folder(home)
        for name in self.names:
            try:
                data = read_small(folder / name, FILE_LIMIT + 1)
            except FileNotFoundError:
                continue
            return fingerprint(data), data.decode("utf-8", "replace")
        return "", ""

    def save_if(self, home: Path, document: Mapping[str, object], expected: str | None) -> str:
        """Store the document if the file is still the one whose fingerprint the writer has read (None: whatever it is).

        Returns the new fingerprint. Raises EditConflictError, BadRequestError, OSError, TimeoutError.
        """
        (home / ".vcp").mkdir(parents=True, exist_ok=True)
        with held(home / LOCK, LOCK_SECONDS):
            current, text = self.version(home)
            if expected is not None and expected != current:
                yours = fingerprint(pretty_json(document).encode("utf-8", "replace"))
                raise EditConflictError(self.title, current, yours, text)
            self.save(home, document)
            return self.version(home)[0]


EDITED_RAG_TAGS = EditedDocument(RAG_TAGS, (RAG_TAGS,), rag_tags, save_rag_tags)
EDITED_SEMANTIC_GROUPS = EditedDocument(GROUPS, (EDITED_GROUPS, GROUPS), groups, save_groups)
EDITED_CHAINS = EditedDocument(CHAINS, (CHAINS,), chains, save_chains)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _read(path: Path) -> Document | None:
    try:
        data = read_small(path, FILE_LIMIT + 1)
    except FileNotFoundError:
        return None
    if len(data) > FILE_LIMIT:
        raise ValueError(f"{path.name}: it is larger than {FILE_LIMIT} bytes")
    try:
        return json_object(data)
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"{path.name}: {fault}") from None


def _write(home: Path, name: str, document: Mapping[str, object]) -> None:
    try:
        data = whole(pretty_json(document, strict=True)).encode("utf-8")
    except (ValueError, RecursionError):
        raise _refused("含有 JSON 之外的数值", "it has a number that is no JSON, or is nested too deep") from None
    if len(data) > FILE_LIMIT:
        raise _refused(f"超过 {FILE_LIMIT} 字节", f"it is larger than {FILE_LIMIT} bytes")
    folder = enhancement_folder(home)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / name, data)


def _refused(chinese: str, english: str) -> BadRequestError:
    return BadRequestError(both(chinese, english))
