"""The forum: posts that models and people write into the notebook VCP论坛 (vcp-core 8.2, 9; memory.md 6.4).

The plugins VCPForum and ForumLister, the routes and the pages all come here. Every change is made on the file as it is
at that moment, under the lock that writers of notes share, so that of two replies none is lost.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from app.config.durable import create_atomic, sync_folder, written
from app.config.edited_file import EditConflictError, fingerprint
from app.config.small_file import read_small
from app.memory.diaries.files import NOTE_MODE, DiaryError, locked, notebook_folder
from app.memory.diaries.forum_trash import DeletedFloor, FloorTrash
from app.memory.diaries.notebooks import NoSuchNoteError, PathRefusedError, existing_notebook
from app.memory.diaries.trash import Trash
from app.protocol import forum as forum_texts
from app.protocol.half_characters import whole

FORUM = "VCP论坛"
"""The notebook that is the forum."""

MAX_POSTS = 20_000
MAX_FLOORS = 2000
MAX_TEXT_BYTES = 1024 * 1024
"""Bytes of one text: a post, or a reply."""

MAX_POST_BYTES = 16 * 1024 * 1024
_PEEK_BYTES = 16 * 1024
"""What a list reads from the beginning and from the end of a post."""


@dataclass(frozen=True, slots=True)
class PostLine:
    """A post in a list. ``timestamp`` as in the file name; ``last_reply_*`` are empty without a reply.

    ``active`` is the moment of the last word in it.
    """

    board: str
    title: str
    author: str
    timestamp: str
    uid: str
    filename: str
    last_reply_by: str
    last_reply_at: str
    active: datetime


@dataclass(frozen=True, slots=True)
class ReadPost:
    """One post: its line, its text as it is on the disk, the version of that, and what it says."""

    line: PostLine
    content: str
    fingerprint: str
    post: forum_texts.Post


class NoSuchPostError(NoSuchNoteError):
    """There is no such post, or no such floor."""


class Forum:
    """The forum of a home; all methods block, any thread may call them. They raise DiaryError and OSError.

    What lists have read of a post is kept until its file changes.
    """

    def __init__(self, home: Path, root: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._root = root
        self._home = home
        self._clock = clock
        self._trash = Trash(home, root)
        self._floors = FloorTrash(home)
        self._lock = threading.Lock()
        self._known: dict[str, tuple[tuple[int, int, int], PostLine]] = {}

    @property
    def root(self) -> Path:
        """The folder of the notebooks."""
        return self._root

    # ------------------------------------------------------------------ reading

    def posts(self) -> list[PostLine]:
        """All posts, the one with the newest word first; at most ``MAX_POSTS``. Other files are left out."""
        try:
            folder = existing_notebook(self._root, FORUM)
        except NoSuchNoteError:
            return []
        with self._lock:
            known, self._known = self._known, {}
            with os.scandir(folder) as entries:
                for entry in entries:
                    before = known.get(entry.name)
                    named = None if before else forum_texts.read_post_name(entry.name)
                    if (before is None and named is None) or len(self._known) >= MAX_POSTS:
                        continue
                    try:
                        if not entry.is_file(follow_symlinks=False):
                            continue
                        status = entry.stat(follow_symlinks=False)
                        signature = (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
                        if before is None or before[0] != signature:
                            before = signature, _line(folder, entry.name)
                    except FileNotFoundError:
                        continue  # deleted since it was listed
                    self._known[entry.name] = before
            lines = [line for _signature, line in self._known.values()]
        return sorted(lines, key=lambda line: (line.active, line.filename), reverse=True)

    def read(self, uid: str) -> ReadPost:
        """A whole post. Raises NoSuchPostError."""
        path = self._path(uid)
        try:
            return _read(path, _content(path))
        except FileNotFoundError:
            raise _no_post(uid) from None

    # ------------------------------------------------------------------ writing

    def create(self, board: str, title: str, author: str, text: str) -> PostLine:
        """Write a new post. Raises DiaryError for what is empty or too long."""
        board, title, author = (forum_texts.one_line(whole(part)) for part in (board, title, author))
        if not board or not title or not author:
            raise DiaryError("缺少板块、标题或署名", "board, title and maid have to be given")
        text = _checked(text)
        folder = notebook_folder(self._root, FORUM)
        now = self._clock()
        uid = forum_texts.post_uid(now, secrets.token_hex(4))
        name = forum_texts.post_file_name(board, title, author, now, uid)
        content = forum_texts.post_text(title, author, text, now, uid, f"{self._root.name}/{FORUM}/{name}")
        if not create_atomic(folder / name, content.encode(), NOTE_MODE):
            raise DiaryError("请稍后再发帖", "a post of this name is there already: try again")
        return _read(folder / name, content.encode()).line

    def reply(self, uid: str, author: str, text: str) -> int:
        """Add a floor and return its number. Raises NoSuchPostError, DiaryError."""
        author = forum_texts.one_line(whole(author))
        if not author:
            raise DiaryError("缺少署名 maid", "maid has to be given")
        text = _checked(text)
        number = 0

        def replied(post: forum_texts.Post) -> str:
            nonlocal number
            if len(post.floors) >= MAX_FLOORS:
                raise DiaryError(f"此帖已有 {MAX_FLOORS} 层，请另发新帖", f"the post has {MAX_FLOORS} floors already")
            content, number = forum_texts.with_reply(post, author, text, self._clock())
            return content

        self._change(uid, replied)
        return number

    def edit(self, uid: str, text: str, floor: int | None = None, expected: str | None = None) -> str:
        """Replace the main text, or that of one floor; returns the new version's fingerprint.

        With ``expected``, the fingerprint that the writer has read, EditConflictError comes when it is another one now.
        Raises NoSuchPostError, DiaryError.
        """
        text = _checked(text)

        def edited(post: forum_texts.Post) -> str:
            if floor is None:
                return forum_texts.with_text(post, text)
            return forum_texts.with_floor_text(post, _floor(post, floor), text)

        return self._change(uid, edited, expected)

    def delete(self, uid: str, keep_days: int) -> str:
        """Move a post into the trash, where it stays for ``keep_days`` days (0: not at all).

        Returns what ``restore`` takes, empty when it cannot come back. Raises NoSuchPostError.
        """
        path = self._path(uid)
        now = self._clock()
        self._sweep(now, keep_days)
        trash_id = self._trash.begin(now)
        try:
            self._trash.put(trash_id, path)
        except FileNotFoundError:
            raise _no_post(uid) from None
        finally:
            kept = self._trash.end(trash_id, keep=keep_days > 0)
        return trash_id if kept else ""

    def delete_floor(self, uid: str, floor: int, keep_days: int, expected: str | None = None) -> str:
        """Take one floor out and number the others anew; returns what ``restore`` takes, empty when it cannot.

        With ``expected`` nothing happens to a post that has changed, since its numbers may be others.
        Raises NoSuchPostError, EditConflictError.
        """
        kept = ""
        now = self._clock()

        def shortened(post: forum_texts.Post) -> str:
            nonlocal kept
            gone = _floor(post, floor)
            if keep_days > 0:  # before it goes: a crash in between leaves it in both places, not in none
                place = post.floors.index(gone) + 1
                kept = self._floors.put(DeletedFloor(uid, place, gone.author, gone.at, gone.text), now)
            return forum_texts.without_floor(post, gone)

        self._sweep(now, keep_days)
        try:
            self._change(uid, shortened, expected)
        except BaseException:
            if kept:
                self._floors.forget(kept)
            raise
        return kept

    def _sweep(self, now: datetime, keep_days: int) -> None:
        self._trash.sweep(now, keep_days)
        self._floors.sweep(now, keep_days)

    def restore(self, trash_id: str) -> str:
        """Bring back what ``delete`` or ``delete_floor`` took; returns the post's id.

        Raises NoSuchNoteError when there is no such thing, DiaryError when the post cannot come back.
        """
        floor = self._floors.find(trash_id)
        if floor is None:
            return self._restore_post(trash_id)
        self._change(
            floor.uid, lambda post: forum_texts.with_floor_again(post, floor.place, floor.author, floor.at, floor.text)
        )
        self._floors.forget(trash_id)
        return floor.uid

    def _restore_post(self, trash_id: str) -> str:
        mine = next((one for one in self._trash.deletions() if one.id == trash_id), None)
        named = [forum_texts.read_post_name(note.partition("/")[2]) for note in mine.notes] if mine is not None else []
        if mine is None or any(name is None for name in named) or not _of_forum(mine.notes):
            raise NoSuchNoteError("回收站中没有这个帖子", "there is no such post in the trash")
        restored, failed = self._trash.restore(trash_id, None)
        if failed or not restored:
            raise DiaryError("帖子没有恢复", "the post was not restored: " + "; ".join(why for _note, why in failed))
        return next(name.uid for name in named if name is not None)

    # ------------------------------------------------------------------ files

    def _path(self, uid: str) -> Path:
        """The file of a post, never one outside of the forum, never a link (B3). Raises NoSuchPostError."""
        if not forum_texts.is_uid(uid):
            raise _no_post(uid)
        try:
            folder = existing_notebook(self._root, FORUM)
        except NoSuchNoteError:
            raise _no_post(uid) from None
        with os.scandir(folder) as entries:
            found = next((entry for entry in entries if _is_post_of(entry.name, uid)), None)
            if found is None:
                raise _no_post(uid)
            if not found.is_file(follow_symlinks=False):
                raise PathRefusedError("帖子文件是链接", "the post's file is a link, or no file at all")
            return Path(found.path)

    def _change(self, uid: str, change: Callable[[forum_texts.Post], str], expected: str | None = None) -> str:
        """Write ``change`` of the post as it is, while nobody else writes; returns the fingerprint."""
        path = self._path(uid)
        with locked(path.parent):
            try:
                before = _content(path)
            except FileNotFoundError:
                raise _no_post(uid) from None
            content = change(_post(before))
            after = content.encode("utf-8", "surrogateescape")
            if expected is not None and fingerprint(before) != expected:
                shown = before.decode("utf-8", "replace")
                raise EditConflictError(path.name, fingerprint(before), fingerprint(after), shown)
            if len(after) > MAX_POST_BYTES:
                raise DiaryError(f"帖子超过 {MAX_POST_BYTES} 字节", f"the post would have over {MAX_POST_BYTES} bytes")
            mode = path.stat().st_mode & 0o777
            with written(path.parent, after, mode) as temporary:
                temporary.chmod(mode)  # whatever the umask says
                temporary.replace(path)
            sync_folder(path.parent)
        return fingerprint(after)


def _of_forum(notes: Sequence[str]) -> bool:
    return bool(notes) and all(note.startswith(f"{FORUM}/") for note in notes)


def _is_post_of(name: str, uid: str) -> bool:
    return (name.startswith("[") and name.endswith(f"[{uid}].md")) or name.endswith(f"[{uid}]].md")


def _no_post(uid: str) -> NoSuchPostError:
    return NoSuchPostError(f"没有帖子 {uid[:64]!r}", f"there is no post {uid[:64]!r}")


def _floor(post: forum_texts.Post, number: int) -> forum_texts.Floor:
    floor = forum_texts.floor_of(post, number)
    if floor is None:
        raise NoSuchPostError(f"没有第 {number} 层", f"there is no floor {number}")
    return floor


def _checked(text: str) -> str:
    text = whole(text).replace("\0", "")
    if not text.strip():
        raise DiaryError("缺少正文 content", "content has to be given")
    if len(text.encode("utf-8")) > MAX_TEXT_BYTES:
        raise DiaryError(f"正文超过 {MAX_TEXT_BYTES} 字节", f"the content has more than {MAX_TEXT_BYTES} bytes")
    return text


def _content(path: Path) -> bytes:
    data = read_small(path, MAX_POST_BYTES + 1)
    if len(data) > MAX_POST_BYTES:
        raise DiaryError("帖子文件太大", f"the post's file has more than {MAX_POST_BYTES} bytes")
    return data


def _post(data: bytes) -> forum_texts.Post:
    """The post, what is no UTF-8 kept so that a change writes it back as it was."""
    return forum_texts.read_post(data.decode("utf-8", "surrogateescape"))


def _read(path: Path, data: bytes) -> ReadPost:
    content = data.decode("utf-8", "replace")
    post = forum_texts.read_post(content)
    return ReadPost(_told(path.name, post), content, fingerprint(data), post)


def _line(folder: Path, name: str) -> PostLine:
    """What a list says of a post, from its beginning and its end; its name alone when it cannot be read."""
    try:
        data = _ends(folder / name)
    except FileNotFoundError:
        raise
    except OSError:
        data = b""
    return _told(name, forum_texts.read_post(data.decode("utf-8", "replace")))


def _ends(path: Path) -> bytes:
    data = read_small(path, 4 * _PEEK_BYTES)
    if len(data) < 4 * _PEEK_BYTES:
        return data
    with path.open("rb") as file:
        file.seek(-2 * _PEEK_BYTES, os.SEEK_END)
        end = file.read(2 * _PEEK_BYTES)
    begin = data[:_PEEK_BYTES]
    section = f"\n\n{forum_texts.RULE}\n\n{forum_texts.COMMENTS}\n{forum_texts.RULE}\n".encode()
    # Where the floors begin is not looked for: the last of them is what a list shows.
    return begin if f"\n{forum_texts.FLOOR}".encode() not in end else begin + section + end[end.find(b"\n") :]


def _told(filename: str, post: forum_texts.Post) -> PostLine:
    named = forum_texts.read_post_name(filename)
    assert named is not None  # only such files are looked for
    last = post.floors[-1] if post.floors else None
    written_at = forum_texts.moment_of(named.timestamp) or datetime.fromtimestamp(0, UTC)
    replied_at = forum_texts.moment_of(last.at) if last is not None else None
    return PostLine(
        board=named.board,
        title=forum_texts.one_line(post.title) or named.title,
        author=forum_texts.one_line(post.author) or named.author,
        timestamp=named.timestamp,
        uid=named.uid,
        filename=filename,
        last_reply_by=forum_texts.one_line(last.author) if last is not None else "",
        last_reply_at=forum_texts.one_line(last.at) if last is not None else "",
        active=max(written_at, replied_at or written_at),
    )
