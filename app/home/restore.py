"""Putting a backup back: verified before anything is touched, each file whole, nothing overwritten without a word."""

from __future__ import annotations

import gzip
import hashlib
import os
import secrets
import shutil
import stat
import tarfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from app.config.durable import open_temporary
from app.errors import both
from app.extend import Clock
from app.home.archive import (
    BLOCK_BYTES,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    PREFIX,
    SQLITE_MAGIC,
    ArchivedFile,
    ArchiveError,
    ArchiveManifest,
    checked_name,
    parse_manifest,
)
from app.home.contents import REPLACED_FOLDER, SQLITE_COMPANIONS
from app.home.lock import STATE_FOLDER

SHOWN_CONFLICTS = 20


@dataclass(slots=True)
class RestoreReport:
    """What came of a restore; ``aside`` is the folder that holds what was replaced, None when nothing was."""

    manifest: ArchiveManifest
    restored: list[str] = field(default_factory=list)
    unchanged: int = 0
    aside: Path | None = None


def verified(archive: Path) -> ArchiveManifest:
    """Read a whole backup and check every file against its manifest; nothing is written.

    Raises ArchiveError, naming the member at fault: damage, a hash that differs, paths that lead out of a home, links
    and special files, members that the manifest does not know, files that are missing.
    """
    found: dict[str, ArchivedFile] = {}
    manifest: ArchiveManifest | None = None
    with _members(archive) as members:
        for info, content in members:
            if info.name == MANIFEST and content is not None and manifest is None:
                if info.size > MAX_MANIFEST_BYTES:
                    raise ArchiveError(both("备份清单过大", "the manifest is too large"))
                manifest = parse_manifest(content.read())
                continue
            name = _checked(info)
            if content is not None:
                if name in found:
                    raise ArchiveError(both(f"备份中 {name!r} 出现了两次", f"the backup holds {name!r} twice"))
                found[name] = ArchivedFile(name, info.size, _digest(content))
    if manifest is None:
        raise ArchiveError(
            both(f"{archive} 里没有 {MANIFEST}，不是 vcp 备份", f"{archive} has no {MANIFEST}; it is no backup of vcp")
        )
    promised = {file.name: file for file in manifest.files}
    for name, file in promised.items():
        if found.get(name) != file:
            raise ArchiveError(both(f"备份中的 {name!r} 已损坏或缺失", f"{name!r} in the backup is damaged or missing"))
    for name in found:
        if name not in promised:
            raise ArchiveError(both(f"备份清单里没有 {name!r}", f"{name!r} in the backup is not in its manifest"))
    return manifest


def restore(
    archive: Path, home: Path, manifest: ArchiveManifest, *, force: bool = False, clock: Clock = time.time
) -> RestoreReport:
    """Put every file of a verified backup into ``home``, each atomically; the caller owns the home.

    A file that is there with the same content stays. Others are replaced only with ``force`` and kept aside below
    ``.vcp/replaced/``. Raises ArchiveError before anything is touched when files are in the way, a path leads out of
    the home through a link, or the disk has no room; and later, naming the file, when one cannot be written. What was
    restored before that stays restored.
    """
    return _Restore(archive, home, manifest, force, clock()).run()


class _Restore:
    def __init__(self, archive: Path, home: Path, manifest: ArchiveManifest, force: bool, now: float) -> None:
        self._archive = archive
        self._home = home
        self._files = {file.name: file for file in manifest.files}
        self._force = force
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
        self._aside = home / STATE_FOLDER / REPLACED_FOLDER / f"{stamp}-{secrets.token_hex(3)}"
        self._report = RestoreReport(manifest)
        self._same: set[str] = set()

    def run(self) -> RestoreReport:
        self._look()
        with _members(self._archive) as members:
            for info, content in members:
                if info.name == MANIFEST:
                    continue
                name = _checked(info)
                try:
                    if content is None:
                        self._folder(name, info.mode)
                    elif name in self._same:
                        self._report.unchanged += 1
                    else:
                        self._file(name, info, content)
                        self._report.restored.append(name)
                except OSError as error:
                    count = len(self._report.restored)
                    raise ArchiveError(
                        both(
                            f"无法恢复 {name}（此前已恢复 {count} 个文件）",
                            f"{name} cannot be restored ({count} files before it were)",
                        )
                        + f": {error.strerror or error}"
                    ) from error
        return self._report

    def _look(self) -> None:
        """Refuse before anything is touched."""
        root = Path(os.path.realpath(self._home))
        conflicts: list[str] = []
        needed = 0
        for name, file in self._files.items():
            target = self._home / checked_name(PREFIX + name)
            parent = Path(os.path.realpath(target.parent))
            if parent != root and root not in parent.parents:
                raise ArchiveError(
                    both(
                        f"{name} 会经由链接写到安装目录之外（{parent}），已拒绝",
                        f"{name} would be written outside of the home, through a link ({parent}); refused",
                    )
                )
            if _is_file_in_the_way(target.parent, self._home) or target.is_dir():
                raise ArchiveError(
                    both(
                        f"{name}: 有同名的文件或目录挡住",
                        f"{name}: a file stands where a folder is needed, or a folder where a file is",
                    )
                )
            if _holds(target, file):
                self._same.add(name)
                continue
            needed += file.size
            if os.path.lexists(target):
                conflicts.append(name)
        if conflicts and not self._force:
            listed = ", ".join(conflicts[:SHOWN_CONFLICTS]) + (", …" if len(conflicts) > SHOWN_CONFLICTS else "")
            raise ArchiveError(
                both(
                    f"{len(conflicts)} 个文件已存在且内容不同，未做任何改动；用 --force 替换（原文件会另存）",
                    f"{len(conflicts)} files exist with another content, nothing was changed; --force replaces them "
                    "and keeps the old ones aside",
                )
                + f": {listed}"
            )
        free = shutil.disk_usage(_existing(self._home)).free
        if needed > free:
            raise ArchiveError(
                both(
                    f"磁盘空间不足：需要 {needed} 字节，剩余 {free} 字节，未做任何改动",
                    f"the disk is too full: {needed} bytes are needed, {free} are free; nothing was changed",
                )
            )

    def _folder(self, name: str, mode: int) -> None:
        folder = self._home / name
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=(mode & 0o777) | stat.S_IRWXU)

    def _file(self, name: str, info: tarfile.TarInfo, content: IO[bytes]) -> None:
        target = self._home / name
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary, descriptor = open_temporary(target.parent, 0o600)
        try:
            digest = hashlib.sha256()
            magic = b""
            with os.fdopen(descriptor, "wb") as file:
                while block := content.read(BLOCK_BYTES):
                    magic = magic or block[: len(SQLITE_MAGIC)]
                    digest.update(block)
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            if digest.hexdigest() != self._files[name].sha256:
                raise OSError(both("备份在读取期间被改动", "the backup was changed while it was read"))
            temporary.chmod(info.mode & 0o777)
            os.utime(temporary, (info.mtime, info.mtime))
            if magic == SQLITE_MAGIC:
                # Left beside another database they would be taken for its own, and spoil it.
                for ending in SQLITE_COMPANIONS:
                    self._put_aside(f"{name}{ending}", keep_place=False)
            self._put_aside(name, keep_place=True)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _put_aside(self, name: str, *, keep_place: bool) -> None:
        """Keep what is there under this name in the folder of replaced files; with ``keep_place`` it also stays."""
        there = self._home / name
        if not os.path.lexists(there):
            return
        kept = self._aside / name
        (self._home / STATE_FOLDER).mkdir(mode=0o700, exist_ok=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        self._report.aside = self._aside
        if keep_place and not there.is_symlink():
            try:
                os.link(there, kept)
            except OSError:
                shutil.copy2(there, kept)  # a file system without hard links
        else:
            there.rename(kept)


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _is_file_in_the_way(folder: Path, home: Path) -> bool:
    """True when a part of the path to ``folder`` below ``home`` exists and is no folder."""
    while folder != home and home in folder.parents:
        if os.path.lexists(folder):
            return not folder.is_dir()
        folder = folder.parent
    return False


def _holds(path: Path, file: ArchivedFile) -> bool:
    """Whether a regular file already has this content."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size != file.size:
            return False
        with path.open("rb") as content:
            return _digest(content) == file.sha256
    except OSError:
        return False


def _digest(content: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while block := content.read(BLOCK_BYTES):
        digest.update(block)
    return digest.hexdigest()


def _is_plain_file(info: tarfile.TarInfo) -> bool:
    """A file with as many bytes as it claims: a sparse one could claim any size, and would be read for ever."""
    return info.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not info.issparse()


def _checked(info: tarfile.TarInfo) -> str:
    name = checked_name(info.name)
    if not (_is_plain_file(info) or info.isdir()):
        raise ArchiveError(
            both(
                f"备份中的 {info.name!r} 是链接或特殊文件，已拒绝",
                f"{info.name!r} in the backup is a link or a special file, which is refused",
            )
        )
    return name


@contextmanager
def _members(path: Path) -> Iterator[Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]]:
    """The members of an archive one after the other, regular files with their content. Faults become ArchiveError."""

    def each(archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
        for info in archive:
            yield info, archive.extractfile(info) if _is_plain_file(info) else None

    try:
        with (
            gzip.open(path, "rb") as unpacked,
            tarfile.open(fileobj=unpacked, mode="r|", errors="surrogateescape") as archive,
        ):
            yield each(archive)
            while unpacked.read(BLOCK_BYTES):  # to the end of the file, where the checksum of all of it stands
                pass
    except (tarfile.TarError, EOFError, zlib.error, OverflowError, UnicodeError, ValueError) as error:
        raise _unreadable(path, error) from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ArchiveError:
    reason = getattr(error, "strerror", None) or error
    return ArchiveError(
        both(f"备份 {path} 无法读取或已损坏", f"the backup {path} cannot be read or is damaged") + f": {reason}"
    )
