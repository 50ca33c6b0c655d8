"""Pictures in posts: files of this machine become pictures of the server, those of the server are shown to models."""

from __future__ import annotations

import base64
import errno
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from app.config.durable import create_atomic
from app.config.small_file import read_small
from app.memory.diaries.files import DiaryError, lies_inside
from app.protocol.file_urls import host_of, is_file_url, path_of

MAX_PICTURE_BYTES = 20 * 1024 * 1024
MAX_PICTURES = 8
"""Pictures of one text that are copied, or shown."""

MAX_SHOWN_BYTES = 16 * 1024 * 1024
"""Bytes of all pictures that one reading shows."""

PACK_SUFFIX = "表情包"
"""Ends the names of folders with emoji, which nobody has to look at."""

_NO_PICTURE = frozenset(
    {errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ENXIO}
)
"""What the system says of a name that is no file, or of a pipe or device under it."""

_PICTURE = re.compile(r"!\[([^\]\n]{0,500})\]\(([^)\s]{1,4096})\)")
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "png", "image/png"),
    (b"\xff\xd8\xff", "jpg", "image/jpeg"),
    (b"GIF8", "gif", "image/gif"),
)


class MissingPictureError(DiaryError):
    """A picture is not on this machine; whoever has it may bring it (vcp-core 5.9)."""

    def __init__(self, url: str) -> None:
        super().__init__("本机没有这张图片", f"the picture is not on this machine: {url[:200]}")
        self._url = url

    def fields(self) -> Mapping[str, str]:
        """What the server understands as a request for the file."""
        return {"code": "FILE_NOT_FOUND_LOCALLY", "fileUrl": self._url}


class Pictures:
    """Pictures of one installation. ``images`` is its folder ``image/``, ``address`` where that is served, with its key
    and no slash at its end; empty when nobody knows.
    """

    def __init__(self, images: Path, address: str) -> None:
        self._images = images
        self._address = address.rstrip("/")

    def taken_over(self, text: str, fetched: str = "") -> str:
        """The text with every picture of a ``file://`` address copied to ``image/forum/`` and linked there.

        Only files that are pictures are copied, since whoever reads the forum sees them. ``fetched`` is a data URI, the
        picture that was missing before and that a node has sent. Nothing is copied unless all pictures are there.
        Raises DiaryError, MissingPictureError, OSError.
        """
        urls = dict.fromkeys(found[2] for found in _PICTURE.finditer(text) if found[2].lower().startswith("file://"))
        if len(urls) > MAX_PICTURES:
            raise DiaryError(f"一次最多 {MAX_PICTURES} 张图片", f"at most {MAX_PICTURES} pictures in one text")
        pictures: dict[str, tuple[bytes, str]] = {}
        spare = _fetched(fetched) if fetched else None
        for url in urls:
            data = _local(url)
            if data is None:
                if spare is None and fetched:
                    raise DiaryError("一次只能有一张其他机器上的图片", "only one picture of another machine at a time")
                if spare is None:
                    raise MissingPictureError(url)
                data, spare = spare, None
            pictures[url] = data, _suffix(data)
        links = {url: self._copied(data, suffix) for url, (data, suffix) in pictures.items()}
        return _PICTURE.sub(lambda found: f"![{found[1]}]({links.get(found[2], found[2])})", text)

    def _copied(self, data: bytes, suffix: str) -> str:
        folder = self._images / "forum"
        folder.mkdir(parents=True, exist_ok=True)
        if not lies_inside(self._images, folder):
            raise DiaryError("image/forum 是链接", "image/forum is a link that leads out of image/")
        name = f"{secrets.token_hex(16)}.{suffix}"
        create_atomic(folder / name, data)
        return f"{self._address}/images/forum/{name}"

    def shown(self, text: str) -> object:
        """The text; with the pictures of this server in it that are no emoji, as parts that models see.

        Pictures elsewhere stay links: a post must not make the server ask any address it likes.
        """
        parts: list[object] = [{"type": "text", "text": text}]
        seen: set[Path] = set()
        left = MAX_SHOWN_BYTES
        for found in _PICTURE.finditer(text):
            path = self._own(found[2])
            if path is None or path in seen or len(parts) > MAX_PICTURES:
                continue
            seen.add(path)
            try:
                data = read_small(path, min(left, MAX_PICTURE_BYTES) + 1)
            except OSError:
                continue  # it is gone; the text still has its link
            kind = _kind(data)
            if kind is None or len(data) > min(left, MAX_PICTURE_BYTES):
                continue
            left -= len(data)
            uri = f"data:{kind[1]};base64,{base64.b64encode(data).decode('ascii')}"
            parts.append({"type": "image_url", "image_url": {"url": uri}})
        return {"content": parts} if len(parts) > 1 else text

    def _own(self, url: str) -> Path | None:
        """The file of a picture of this server that models should see; None for all others."""
        path = self._file_of(url)
        return None if path is None or any(part.endswith(PACK_SUFFIX) for part in path.parent.parts) else path

    def _file_of(self, url: str) -> Path | None:
        """The file of a picture of this server, whatever host and key its link names; None for all others."""
        try:
            address = urlsplit(url)
        except ValueError:
            return None
        if address.scheme not in ("", "http", "https"):
            return None
        _, found, below = address.path.partition("/images/")
        names = unquote(below).split("/")
        bad = any(name in ("", ".", "..") or name.startswith(".") or "\\" in name or "\0" in name for name in names)
        if not found or bad:
            return None
        path = self._images.joinpath(*names)
        return path if lies_inside(self._images, path) else None

    def picture(self, name: str) -> tuple[bytes, str] | None:
        """A picture below ``image/`` and its media type, for people; None when there is none. Raises OSError."""
        path = self._file_of(f"/images/{quote(name)}")
        if path is None:
            return None
        try:
            data = read_small(path, MAX_PICTURE_BYTES + 1)
        except OSError as fault:
            if fault.errno in _NO_PICTURE:
                return None
            raise
        kind = _kind(data)
        return (data, kind[1]) if kind is not None and len(data) <= MAX_PICTURE_BYTES else None


def _local(url: str) -> bytes | None:
    """The content of a file of this machine, None when it is not here."""
    path = path_of(url)
    if not is_file_url(url) or host_of(url) or not path:
        return None
    try:
        data = read_small(Path(path[1:] if re.match(r"/[A-Za-z]:", path) else path), MAX_PICTURE_BYTES + 1)
    except (OSError, ValueError):
        return None
    if len(data) > MAX_PICTURE_BYTES:
        raise DiaryError(f"图片超过 {MAX_PICTURE_BYTES} 字节", f"a picture has more than {MAX_PICTURE_BYTES} bytes")
    return data


def _fetched(uri: str) -> bytes:
    try:
        data = base64.b64decode(uri.partition(";base64,")[2], validate=True)
    except ValueError:
        data = b""
    if not data or len(data) > MAX_PICTURE_BYTES:
        raise DiaryError("取来的图片无法使用", "the picture that was fetched cannot be used")
    return data


def _suffix(data: bytes) -> str:
    kind = _kind(data)
    if kind is None:
        raise DiaryError(
            "文件不是 PNG、JPEG、GIF 或 WebP 图片，没有复制",
            "a linked file is no PNG, JPEG, GIF or WebP picture and was not copied",
        )
    return kind[0]


def _kind(data: bytes) -> tuple[str, str] | None:
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp", "image/webp"
    return next(((suffix, mime) for magic, suffix, mime in _MAGIC if data.startswith(magic)), None)


def picture_address(environment: Mapping[str, str]) -> str:
    """Where pictures are served, from what the server tells its plugins: host, port and key of the picture service."""
    key = environment.get("IMAGESERVER_IMAGE_KEY") or environment.get("Image_Key") or ""
    host = environment.get("VarHttpUrl", "").strip().rstrip("/") or "http://localhost"
    port = environment.get("SERVER_PORT", "").strip()
    if port and urlsplit(host).port is None:
        host = f"{host}:{port}"
    return f"{host}/pw={quote(key, safe='')}" if key else host
