"""Making an installation: what is missing is made, what is there stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.config.durable import create_atomic
from app.config.home_folders import home_folders, make_home
from app.config.keys import KEY_FILE, server_key
from app.config.program_files import EXAMPLE, FIRST_AGENT, FIRST_TEXT, program_file
from app.config.snapshot import CONFIG_FILE, load
from app.errors import ConfigError, both

AGENT_MAP = "agent_map.json"
FIRST_MAP = """{
  "//": "Alias: file below Agent/. Write {{Nova}} in a system message to put the file there. Keys that begin with // are notes. / 别名: Agent/ 下的文件；在系统消息里写 {{Nova}} 即可填入。以 // 开头的键是注释。",
  "Nova": "Nova.txt"
}
"""  # noqa: E501 - one line of the file


@dataclass(frozen=True, slots=True)
class NewHome:
    """What was made and what was there already, as paths below ``home``. ``generated_key``: no Key is configured."""

    home: Path
    made: tuple[str, ...]
    kept: tuple[str, ...]
    generated_key: bool


def make_new_home(home: Path, environ: Mapping[str, str]) -> NewHome:
    """Make ``home`` an installation that can be started; safe to repeat, and on an old installation.

    ``environ`` is the process environment, which may configure a Key. No file that exists is ever changed. The first
    agent is made only together with ``agent_map.json``. Raises ConfigError, naming the file, when something cannot be
    made or read.
    """
    home = home.absolute()
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _impossible(home, error) from error
    made: list[str] = []
    kept: list[str] = []

    def put(name: str, data: bytes, mode: int) -> bool:
        try:
            new = not (home / name).is_symlink() and create_atomic(home / name, data, mode)
        except OSError as error:
            raise _impossible(home / name, error) from error
        (made if new else kept).append(name)
        return new

    notebooks = load(home, environ).notebooks
    for folder in home_folders(home, notebooks):
        (kept if (home / folder).is_dir() else made).append(f"{folder}/")
    make_home(home, notebooks)
    put(CONFIG_FILE, _shipped(EXAMPLE), 0o600)  # secrets will be written into it
    if put(AGENT_MAP, FIRST_MAP.encode(), 0o644):
        put(FIRST_AGENT, _shipped(FIRST_AGENT), 0o644)
        put(FIRST_TEXT, _shipped(FIRST_TEXT), 0o644)
    there = (home / KEY_FILE).exists()
    key = server_key(load(home, environ))
    if key.generated:
        (kept if there else made).append(KEY_FILE.as_posix())
    return NewHome(home, tuple(made), tuple(kept), key.generated)


def _shipped(name: str) -> bytes:
    path = program_file(name)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            both(f"程序自带的文件 {path} 无法读取", f"{path}, which comes with the program, cannot be read")
            + f": {error.strerror or error}"
        ) from error


def _impossible(path: Path, error: OSError) -> ConfigError:
    return ConfigError(both(f"无法创建 {path}", f"{path} cannot be made") + f": {error.strerror or error}")
