"""From ``entryPoint.command`` to an argument list (spec 5.5, D11, D38, P46).

A command without shell syntax is split here and started directly; only one that needs a shell gets one (B10).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.errors import VcpError, both
from app.plugins.manifest import Manifest

_SHELL_CHARACTERS = frozenset("|&;<>()$`*?[]{}\n\r")
_QUOTED_SHELL_CHARACTERS = frozenset("$`\\")
_SHELL_WORDS = frozenset({".", ":", "cd", "eval", "exec", "export", "set", "source", "ulimit", "umask", "unset"})
_SCRIPT_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb", ".pl", ".php", ".lua")
_INLINE_CODE = frozenset({"-c", "-m", "-e", "--eval", "-p", "--print", "-"})
_PYTHON = re.compile(r"python(3(\.\d+)?)?(\.exe)?", re.IGNORECASE)
_INTERPRETER = re.compile(r"(python|node|nodejs|bash|sh|deno|bun|ruby|perl|php|lua|tsx)[\d.]*(\.exe)?", re.IGNORECASE)


SERVER_INTERPRETER = "server"
"""Value of ``entryPoint.interpreter``: ``python`` means the interpreter that runs the server (D38)."""


class CommandError(VcpError):
    """A plugin's command cannot be started; the message names the word or path at fault."""

    code = "plugin_command"


@dataclass(frozen=True, slots=True)
class Launch:
    """What to execute. ``path_first`` goes in front of the child's PATH (a plugin's own environment, shell only)."""

    argv: tuple[str, ...]
    path_first: str | None = None


def plan_launch(
    manifest: Manifest, folder: Path, project_base: Path, environ: Mapping[str, str], server_python: str
) -> Launch:
    """Work out how to start a plugin whose working directory will be ``folder``.

    ``python`` is the server's interpreter for manifests that say ``"interpreter": "server"``; else the plugin's own
    ``.venv``, else what PATH has, else (``python``, ``python3``) the server's interpreter again. A script that is not
    in the folder is looked for from the project's root. Raises CommandError when nothing can be started.
    """
    line = manifest.command_line.strip()
    if not line:
        raise CommandError(both("清单里没有 entryPoint.command", "the manifest has no entryPoint.command"))
    words = split_command(line)
    finder = _Finder(folder, (folder.parent.parent, project_base), environ, server_python)
    if words is None or words[0] in _SHELL_WORDS or "=" in words[0]:
        return _shell(line, folder, manifest, server_python)
    words = [finder.portable(word) for word in words]
    if any("\\" in word for word in words) and os.name != "nt":
        return _shell(line, folder, manifest, server_python)
    arguments = words[1:]
    if _INTERPRETER.fullmatch(Path(words[0]).name):
        arguments = finder.script(arguments)
    if manifest.interpreter == SERVER_INTERPRETER and _PYTHON.fullmatch(words[0]):
        return Launch((server_python, *arguments))
    return Launch((finder.program(words[0]), *arguments))


def missing_program(manifest: Manifest, folder: Path, search_path: str) -> str:
    """The program that a command runs by its bare name and that is nowhere, such as ``node``; empty when none lacks.

    Empty, too, for commands that only a shell understands and for files of the plugin's own: their faults are told by
    the call.
    """
    try:
        words = split_command(manifest.command_line.strip())
    except CommandError:
        return ""
    if not words or words[0] in _SHELL_WORDS or any(sign in words[0] for sign in "=/\\"):
        return ""
    try:
        _Finder(folder, (), {"PATH": search_path}, "python").program(words[0])
    except CommandError:
        return words[0]
    return ""


def split_command(line: str) -> list[str] | None:
    """The words of a command, quotes removed; None when only a shell can understand it.

    Raises CommandError for a quote that is never closed. Backslashes stay: outside quotes they are path separators more
    often than escapes in the manifests people have, and ``plan_launch`` decides.
    """
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    for char in line:
        if quote:
            if char == quote:
                quote = ""
            elif quote == '"' and char in _QUOTED_SHELL_CHARACTERS and os.name != "nt":
                return None
            elif word is not None:
                word.append(char)
        elif char in "\"'":
            quote = char
            word = [] if word is None else word
        elif char in _SHELL_CHARACTERS or (char in "~#" and word is None):
            return None
        elif char.isspace():
            if word is not None:
                words.append("".join(word))
            word = None
        else:
            word = [] if word is None else word
            word.append(char)
    if quote:
        raise CommandError(f"{both('命令里有未闭合的引号', 'the command has an unclosed quote')}: {line}")
    if word is not None:
        words.append("".join(word))
    return words if words and words[0] else None


def _shell(line: str, folder: Path, manifest: Manifest, server_python: str) -> Launch:
    own = _own_python(folder)
    first = str(own.parent) if own else None
    if manifest.interpreter == SERVER_INTERPRETER:
        first = str(Path(server_python).parent)
    if os.name == "nt":
        return Launch((os.environ.get("COMSPEC", "cmd.exe"), "/d", "/s", "/c", line), path_first=first)
    return Launch(("/bin/sh", "-c", line), path_first=first)


def _own_python(folder: Path) -> Path | None:
    for relative in ("bin/python", "Scripts/python.exe"):
        python = folder / ".venv" / relative
        if python.exists():
            return python
    return None


@dataclass(frozen=True, slots=True)
class _Finder:
    folder: Path
    bases: tuple[Path, ...]
    environ: Mapping[str, str]
    server_python: str

    def portable(self, word: str) -> str:
        """A path written with backslashes, as this system writes it, when that file exists."""
        if os.name == "nt" or "\\" not in word:
            return word
        turned = word.replace("\\", "/")
        return turned if any((base / turned).exists() for base in (self.folder, *self.bases)) else word

    def program(self, word: str) -> str:
        if "/" in word or os.sep in word:
            return self._existing(word)
        if _PYTHON.fullmatch(word) and (own := _own_python(self.folder)) is not None:
            return str(own)
        found = shutil.which(word, path=self.environ.get("PATH", os.defpath))
        if found is None and word.lower() in ("python", "python3"):
            return self.server_python
        if found is None and word == "node":
            found = shutil.which("nodejs", path=self.environ.get("PATH", os.defpath))
        if found is None and (self.folder / word).is_file():
            found = str(self.folder / word)
        if found is None:
            raise CommandError(
                both(
                    f'找不到命令 "{word}"：PATH 和 {self.folder} 里都没有',
                    f'command "{word}" was not found: neither on PATH nor in {self.folder}',
                )
            )
        # A relative entry of PATH is relative to the server's working directory, not to the plugin's.
        return str(Path(found).absolute())

    def script(self, arguments: list[str]) -> list[str]:
        for index, word in enumerate(arguments):
            if word in _INLINE_CODE:
                return arguments
            if word.startswith("-") or not word.lower().endswith(_SCRIPT_SUFFIXES):
                continue
            if (self.folder / word).exists():
                return arguments
            return [*arguments[:index], self._existing(word), *arguments[index + 1 :]]
        return arguments

    def _existing(self, word: str) -> str:
        places = dict.fromkeys(base / word for base in (self.folder, *self.bases))
        for place in places:
            if place.is_file():
                return str(place)
        looked = ", ".join(str(place) for place in places)
        raise CommandError(both(f'"{word}" 不存在', f'"{word}" does not exist') + f" ({looked})")
