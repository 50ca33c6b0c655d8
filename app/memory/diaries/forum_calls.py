"""What the plugins VCPForum and ForumLister do (vcp-core 9, memory.md 6.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from pathlib import Path

from app.memory.diaries.files import DiaryError
from app.memory.diaries.forum import FORUM, Forum, PostLine
from app.memory.diaries.forum_pictures import Pictures
from app.memory.diaries.permissions import read_permissions
from app.memory.diaries.requests import text_argument
from app.protocol.forum import moment_of

LISTED_POSTS = 300
"""Posts of the list that prompts show; the ones with the newest words."""

LISTED_CHARS = 60_000


def run_forum(arguments: Mapping[str, object], home: Path, forum: Forum, pictures: Pictures) -> Mapping[str, object]:
    """Carry out one command and return the fields of the answer. Raises DiaryError, OSError, MissingPictureError."""
    command = text_argument(arguments, "command").strip().lower()
    maid = text_argument(arguments, "maid", "maidName", "Maid", "MAID").strip()
    if command == "createpost":
        read_permissions(home).check_write(maid, FORUM)
        board, title = text_argument(arguments, "board"), text_argument(arguments, "title")
        if not (maid and board.strip() and title.strip()):  # before a picture is copied
            raise DiaryError("缺少参数 maid、board 或 title", "maid, board and title have to be given")
        line = forum.create(board, title, maid, _content(arguments, pictures))
        return {"result": f"已发布 / posted: [{line.board}] {line.title}，UID: {line.uid}"}
    if command == "replypost":
        read_permissions(home).check_write(maid, FORUM)
        uid = _uid(arguments)
        if not maid:
            raise DiaryError("缺少参数 maid", "maid is missing")
        forum.read(uid)  # before a picture is copied
        floor = forum.reply(uid, maid, _content(arguments, pictures))
        return {"result": f"已回复，楼层 #{floor} / replied on floor {floor}"}
    if command == "readpost":
        read_permissions(home).check_read(maid, FORUM)
        return {"result": pictures.shown(forum.read(_uid(arguments)).content)}
    raise DiaryError(
        f"未知的 command {command[:40]!r}，可用：CreatePost、ReplyPost、ReadPost",
        f"unknown command {command[:40]!r}; there are CreatePost, ReplyPost and ReadPost",
    )


def _uid(arguments: Mapping[str, object]) -> str:
    uid = text_argument(arguments, "post_uid", "uid").strip()
    if not uid:
        raise DiaryError("缺少参数 post_uid", "post_uid is missing")
    return uid


def _content(arguments: Mapping[str, object], pictures: Pictures) -> str:
    """The text, with ``\\n`` and ``\\"`` that a model wrote as two characters turned into what they stand for."""
    text = text_argument(arguments, "content").replace("\\n", "\n").replace('\\"', '"')
    return pictures.taken_over(text, text_argument(arguments, "image_base64"))


def forum_list(lines: Sequence[PostLine], zone: tzinfo) -> str:
    """The list of posts for prompts, by board; boards and posts with the newest words first."""
    boards: dict[str, list[str]] = {}
    size = shown = 0
    for line in lines[:LISTED_POSTS]:
        text = _listed(line, zone)
        size += len(text) + 1
        if size > LISTED_CHARS:
            break
        shown += 1
        boards.setdefault(line.board, []).append(text)
    if not boards:
        return "论坛还没有帖子 / the forum has no posts yet"
    blocks = ["\n".join((f"————[{board}]————", *texts)) for board, texts in boards.items()]
    if shown < len(lines):
        blocks.append(f"（还有 {len(lines) - shown} 篇较早的帖子 / {len(lines) - shown} older posts）")
    return "\n\n".join(blocks)


def _listed(line: PostLine, zone: tzinfo) -> str:
    replied = f" (最后回复: {line.last_reply_by} at {_time(line.last_reply_at, zone)})" if line.last_reply_by else ""
    return f"[{line.author}] {line.title} (发布于: {_time(line.timestamp, zone)}){replied} (UID: {line.uid})"


def _time(text: str, zone: tzinfo) -> str:
    moment = moment_of(text)
    return text if moment is None else f"{moment.astimezone(zone):%Y-%m-%d %H:%M}"
