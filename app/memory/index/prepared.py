"""A note made ready for the tables: chunks, hashes, words. Pure, and most of the work of indexing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from app.memory.index.chunks import cut_text, embedded_sha, embedded_text
from app.memory.index.note_files import FileState, NoteRules, NoteText, notebook_of
from app.memory.index.words import document_words
from app.protocol.diary_head import NoteHead, read_note_head
from app.protocol.diary_tags import fold_tag, read_tags

_NO_HEAD = NoteHead(None, "", "", 0, 0)


@dataclass(frozen=True, slots=True)
class PreparedChunk:
    """A row of the table of chunks; ``words`` is the column ``body`` of the table of words."""

    start: int
    end: int
    tokens: int
    text: str
    embed_sha: bytes
    words: str


@dataclass(frozen=True, slots=True)
class PreparedNote:
    """A note as the tables hold it. ``tags`` are (folded, as written)."""

    path: str
    notebook: str
    sha256: bytes
    state: FileState
    head: NoteHead
    tags: tuple[tuple[str, str], ...]
    tag_words: str
    name_words: str
    chunks: tuple[PreparedChunk, ...]
    fault: str = ""


def prepare(path: str, note: NoteText, rules: NoteRules) -> PreparedNote:
    """Make a note ready; one that could not be read has no chunks and says why."""
    notebook = notebook_of(path)
    if note.text is None:
        return PreparedNote(path, notebook, note.sha256, note.state, _NO_HEAD, (), "", "", (), note.fault)
    text = note.text
    head = read_note_head(text, PurePosixPath(path).name)
    tags = read_tags(text, rules.tag_blacklist, rules.tag_blacklist_super)
    names = (notebook, PurePosixPath(path).stem, head.author, head.title, str(head.day or ""))
    chunks = []
    for chunk in cut_text(text):
        piece = text[chunk.start : chunk.end]
        sha = embedded_sha(embedded_text(head, tags, text, chunk))
        words = " ".join(document_words(piece))
        chunks.append(PreparedChunk(chunk.start, chunk.end, chunk.tokens, piece, sha, words))
    return PreparedNote(
        path=path,
        notebook=notebook,
        sha256=note.sha256,
        state=note.state,
        head=head,
        tags=tuple((fold_tag(tag), tag) for tag in tags),
        tag_words=" ".join(document_words(" ".join(tags))),
        name_words=" ".join(dict.fromkeys(document_words(" ".join(names)))),
        chunks=tuple(chunks),
    )
