"""Files that the main server may ask for: those below the folders that this node shares (spec 6.4, D62)."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote_to_bytes

from app.errors import VcpError, both
from app.extend import Json

MAX_URL_CHARS = 8192
UNKNOWN_TYPE = "application/octet-stream"

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_DRIVE = re.compile(r"/[A-Za-z]:[\\/]")


class SharedFileError(VcpError):
    """A file is not given out."""

    status = 404
    code = "file_not_shared"


class SharedFiles:
    """Reads files for the main server.

    ``roots`` gives the folders of now, ``max_bytes`` how many bytes of a file fit into one message, ``name`` is the
    node's name, which may stand as host in a URL.
    """

    def __init__(
        self, roots: Callable[[], Sequence[Path]], max_bytes: Callable[[], int], name: str, *, windows: bool = False
    ) -> None:
        self._roots = roots
        self._max_bytes = max_bytes
        self._name = name
        self._windows = windows

    async def answer(self, arguments: Mapping[str, Json]) -> Mapping[str, Json]:
        """The result of ``internal_request_file``; SharedFileError says why there is none.

        With ``offset`` and ``length`` (bytes) only that piece is read, with the size of the whole and a ``version``
        that changes when the file does.
        """
        url = arguments.get("fileUrl")
        if not isinstance(url, str) or len(url) > MAX_URL_CHARS:
            raise SharedFileError(both("fileUrl 必须是 file:// 地址", "fileUrl has to be a file:// address"))
        path = file_path(url, self._name, windows=self._windows)
        piece = _piece(arguments)
        return await asyncio.to_thread(self._read, path, piece)

    def _read(self, path: Path, piece: tuple[int, int] | None) -> Mapping[str, Json]:
        limit = self._max_bytes()
        descriptor = self._opened(path)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise SharedFileError(both("不是普通文件", "this is no regular file"))
            if piece is None and status.st_size > limit:
                raise SharedFileError(
                    both(
                        f"文件为 {status.st_size} 字节，超过单条消息上限 {limit}（NodeMaxFrameMB）",
                        f"the file has {status.st_size} bytes, more than the {limit} of one message (NodeMaxFrameMB)",
                    )
                )
            offset, length = piece or (0, status.st_size)
            os.lseek(descriptor, offset, os.SEEK_SET)
            data = _exactly(descriptor, min(length, limit))
        except OSError as error:
            raise _unreadable(error) from None
        finally:
            os.close(descriptor)
        result: dict[str, Json] = {
            "status": "success",
            "fileData": base64.b64encode(data).decode("ascii"),
            "mimeType": mimetypes.guess_type(path.name)[0] or UNKNOWN_TYPE,
        }
        if piece is not None:
            version = f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"
            result |= {"offset": offset, "size": status.st_size, "version": version}
        return result

    def _opened(self, path: Path) -> int:
        """Open a file that lies, after all links, below a shared folder (B3)."""
        roots = [root.resolve() for root in self._roots()]
        try:
            real = path.resolve()
            if not any(real.is_relative_to(root) for root in roots):
                raise _not_shared()
            descriptor = os.open(real, _FLAGS)
        except (OSError, ValueError, RuntimeError) as error:
            raise _unreadable(error) from None
        # A folder of the way may have become a link in between; what was opened has to be what lies there now.
        try:
            same = real.resolve() == real and os.path.samestat(os.fstat(descriptor), real.stat())
        except OSError:
            same = False
        if not same:
            os.close(descriptor)
            raise _not_shared()
        return descriptor


def file_path(url: str, name: str, *, windows: bool = False) -> Path:
    """The path of a ``file://`` URL: ``file:///home/a%20b``, ``file:///C:/a``, ``file://<this node>/a``.

    Percent-encoding is undone once. Raises SharedFileError for another scheme or host, for shares in a network
    (``file://server/share``, ``\\\\server\\share``) and for names that no file can have.
    """
    if url[:7].lower() != "file://":
        raise SharedFileError(both("只支持 file:// 地址", "only file:// addresses are served"))
    host, slash, rest = url[7:].partition("/")
    if host.lower() not in ("", "localhost", name.lower()):
        raise SharedFileError(both("该文件在另一台机器上", "the file is on another machine"))
    try:
        text = unquote_to_bytes(rest).decode("utf-8")
    except UnicodeDecodeError:
        raise SharedFileError(both("地址不是 UTF-8", "the address is not UTF-8")) from None
    path = f"{slash}{text}"
    if windows and _DRIVE.match(path):
        path = path[1:]
    if "\0" in path or not slash or path.startswith(("//", "/\\", "\\")):
        raise SharedFileError(both("地址不是本机文件的路径", "the address is no path of a file of this machine"))
    return Path(path)


def _piece(arguments: Mapping[str, Json]) -> tuple[int, int] | None:
    if "offset" not in arguments and "length" not in arguments:
        return None
    offset, length = arguments.get("offset", 0), arguments.get("length")
    for value in (offset, length):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
            raise SharedFileError(
                both("offset 和 length 必须是非负整数", "offset and length have to be whole numbers from 0")
            )
    return int(str(offset)), int(str(length))


def _exactly(descriptor: int, length: int) -> bytes:
    """So many bytes, fewer at the end of the file."""
    data = bytearray()
    while len(data) < length and (more := os.read(descriptor, min(length - len(data), 1024 * 1024))):
        data += more
    return bytes(data)


def _not_shared() -> SharedFileError:
    return SharedFileError(
        both(
            "该文件不在此节点共享的目录（NodeFileRoots / --files）之下",
            "the file is not below a folder that this node shares (NodeFileRoots, --files)",
        )
    )


def _unreadable(error: Exception) -> SharedFileError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return SharedFileError(both(f"文件无法读取：{why}", f"the file cannot be read: {why}"))
