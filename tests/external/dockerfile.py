"""Carries out a Dockerfile in a chroot: the same instructions in the same order, without a container engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 120
KNOWN = {
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "RUN",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
}


@dataclass
class Image:
    """A built stage: its root folder and what the instructions set."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    user: str = "root"
    folder: str = "/"
    command: list[str] = field(default_factory=list)
    entry: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)
    exposed: str = ""
    stop_signal: str = "SIGTERM"

    def argv(self, *words: str, user: str | None = None) -> list[str]:
        """The host's command that runs ``words`` in here as the image's user."""
        ids = (user or self.user).replace("root", "0:0")
        inside = ["env", "--chdir", self.folder, *words]
        return ["chroot", f"--userspec={ids}", str(self.root), *inside]

    def run(self, *words: str, user: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        """Run to the end; the output of a failure is in the error."""
        done = subprocess.run(
            self.argv(*words, user=user),
            env=self.environment | more,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"{words} ended with {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        return done


def instructions(text: str) -> list[tuple[str, str]]:
    """Word and rest of each instruction; comments go, continued lines are joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [tuple(line.strip().split(None, 1)) for line in joined.splitlines() if line.strip()]
    return [(word.upper(), rest) for word, rest in found]


def build(dockerfile: Path, context: Path, base: Path, work: Path) -> Image:
    """Build the last stage. ``base`` is a root folder of the distribution that every FROM names.

    Build arguments have their defaults. An instruction that is not understood is an error: nothing is left out.
    """
    stages: dict[str, Image] = {}
    arguments: dict[str, str] = {}
    image: Image | None = None
    for word, rest in instructions(dockerfile.read_text(encoding="utf-8")):
        assert word in KNOWN, f"{word} is not understood"
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "final"
            image = stages[name] = Image(work / name)
            subprocess.run(["cp", "-a", "--reflink=auto", str(base), str(image.root)], check=True, timeout=SECONDS)
            continue
        assert image is not None
        if word == "ARG":
            key, _, value = rest.partition("=")
            arguments[key] = value.strip('"')
        elif word == "RUN":
            image.run("/bin/sh", "-c", rest, **arguments)
        elif word == "COPY":
            _copy(rest, context, image, stages)
        elif word == "ENV":
            image.environment |= dict(pair.split("=", 1) for pair in shlex.split(rest))
        elif word == "WORKDIR":
            image.folder = rest
            (image.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "USER":
            image.user = rest
        elif word == "EXPOSE":
            image.exposed = rest
        elif word == "STOPSIGNAL":
            image.stop_signal = rest
        elif word == "ENTRYPOINT":
            image.entry = json.loads(rest)
        elif word == "CMD":
            image.command = json.loads(rest)
        elif word == "HEALTHCHECK":
            image.health = json.loads(rest.partition("CMD ")[2])
    assert image is not None
    return image


def _copy(rest: str, context: Path, image: Image, stages: Mapping[str, Image]) -> None:
    words = rest.split()
    root = context
    if words[0].startswith("--from="):
        root = stages[words.pop(0).partition("=")[2]].root
    *sources, target = words
    place = image.root / os.path.normpath(f"{image.folder}/{target}" if not target.startswith("/") else target).lstrip(
        "/"
    )
    for source in sources:
        origin = root / source.lstrip("/")
        if origin.is_dir():
            shutil.copytree(origin, place, symlinks=True, dirs_exist_ok=True)
        else:
            end = place / origin.name if target.endswith("/") else place
            end.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(origin, end)
