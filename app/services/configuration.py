"""``config.env`` as administrators edit it, and what a save means for the server that runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from app.config.dotenv import decode, parse_values
from app.config.edited_file import EditedFile
from app.config.env_backups import Backup, backups, read_backup
from app.config.env_edit import edited
from app.config.env_file import SavedEnv, read_env, restore_env, write_env
from app.config.env_layout import Layout, read_layout
from app.config.env_review import DiffLine, Review, differences, environment_of, review
from app.config.program_files import EXAMPLE, program_file
from app.config.snapshot import CONFIG_FILE, Config
from app.errors import ConfigError, VcpError
from app.services.root import Services


class ConfigRefusedError(VcpError):
    """The server could not start with this configuration, so it is not saved."""

    status = 422
    code = "config_refused"


@dataclass(frozen=True, slots=True)
class SavedConfig:
    """What was saved, what it means, and what the reload had to tell."""

    saved: SavedEnv
    review: Review
    problems: tuple[str, ...]


class Configuration:
    """Reads, judges and saves ``config.env``; a save is followed by a reload. ``now`` gives an aware time."""

    def __init__(self, services: Services, now: Callable[[], datetime]) -> None:
        self._services = services
        self._now = now

    async def read(self) -> EditedFile:
        """The text of now; see ``read_env``."""
        return await asyncio.to_thread(read_env, self._home)

    async def layout(self) -> Layout:
        """The groups and help texts of the settings, from the example that comes with the program."""
        return await asyncio.to_thread(lambda: read_layout(program_file(EXAMPLE).read_text(encoding="utf-8")))

    async def on_disk(self) -> Config:
        """The configuration as it is on disk, which a restart would put in force; ConfigError."""
        return await asyncio.to_thread(self._services.read_config)

    async def environment(self) -> Mapping[str, str]:
        """The variables of the operating system and the command line, which win over the file."""
        try:
            config = await self.on_disk()
        except ConfigError:
            config = self._services.config  # the file cannot be read now
        return environment_of(config)

    async def overridden(self, text: str) -> frozenset[str]:
        """The keys of ``text`` that a variable of the operating system beats."""
        return frozenset(parse_values(text)) & frozenset(await self.environment())

    async def review(self, before: str, after: str) -> Review:
        """What replacing ``before``, the file of now, by ``after`` would mean."""
        environ = await self.environment()
        return await asyncio.to_thread(review, self._home, before, after, environ)

    async def differences(self, before: str, after: str, *, secrets: bool) -> list[DiffLine]:
        """The lines that differ; see ``env_review.differences``."""
        return await asyncio.to_thread(differences, before, after, secrets=secrets)

    async def edited(self, text: str, changes: Mapping[str, str | None]) -> str:
        """``text`` with these values; see ``env_edit.edited``."""
        layout = await self.layout()
        return await asyncio.to_thread(edited, text, changes, layout)

    async def save(self, text: str, expected: str | None) -> SavedConfig:
        """Save and reload. Raises ConfigRefusedError and what ``write_env`` does, and then nothing has changed."""
        before = await self._readable()
        judged = await self.review(before, text)
        if judged.refusal:
            raise ConfigRefusedError(judged.refusal)
        saved = await asyncio.to_thread(write_env, self._home, text, expected, self._now())
        return await self._in_force(saved, judged)

    async def backups(self) -> list[Backup]:
        """The copies of earlier versions, the newest first."""
        return await asyncio.to_thread(backups, self._home)

    async def backup(self, name: str) -> str:
        """The text of one of them; NotFoundError."""
        data = await asyncio.to_thread(read_backup, self._home, name)
        return decode(self._home / CONFIG_FILE, data)[0]

    async def restore(self, name: str, expected: str | None) -> SavedConfig:
        """Put a copy back and reload; what is there is kept as a copy first. Raises as ``save``, and NotFoundError."""
        judged = await self.review(await self._readable(), await self.backup(name))
        if judged.refusal:
            raise ConfigRefusedError(judged.refusal)
        saved = await asyncio.to_thread(restore_env, self._home, name, expected, self._now())
        return await self._in_force(saved, judged)

    @property
    def _home(self) -> Path:
        return self._services.in_force.home

    async def _readable(self) -> str:
        """The text of now; a file that nobody can read may be replaced, and is kept as a copy."""
        try:
            return (await self.read()).text
        except ConfigError:
            return ""

    async def _in_force(self, saved: SavedEnv, judged: Review) -> SavedConfig:
        done = await self._services.reload()
        return SavedConfig(saved, judged, done.problems)
