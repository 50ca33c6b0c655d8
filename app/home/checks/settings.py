"""Checks of ``config.env``: values that cannot be used, names that are misspelt, keys that stand twice (spec 2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from app.config import dotenv
from app.config.problem import Problem
from app.config.settings import names
from app.config.snapshot import CONFIG_FILE
from app.config.upstreams import is_of_family
from app.errors import ConfigError
from app.home.checks.findings import Finding, Installation, Level, Topic


def check_settings(installation: Installation) -> Iterator[Finding]:
    """Findings about the settings."""
    path = installation.home / CONFIG_FILE
    if not path.exists():
        yield Finding(
            Level.NOTE,
            Topic.SETTINGS,
            "没有 config.env，全部使用默认值；vcp init 可以创建一个",
            "there is no config.env, all defaults apply; vcp init makes one",
            CONFIG_FILE,
        )
    known = {name.lower() for name in names()}
    for problem in installation.config.problems:
        yield _problem(installation, problem, known)
    if not installation.config.has_model_api:
        yield Finding(
            Level.NOTE,
            Topic.SETTINGS,
            "没有可用的上游（API_URL 或 Upstream_…_URL）：由内置演示模型回答",
            "there is no upstream (API_URL or Upstream_…_URL): the built-in demo model answers",
            CONFIG_FILE,
            subject="API_URL",
        )
    try:
        file = dotenv.read(path)
    except ConfigError:
        return  # told by whoever loaded the configuration
    yield from _repeated(file)
    yield from _overridden(installation, file)
    yield from _legacy_agents(installation, file)


def _problem(installation: Installation, problem: Problem, known: set[str]) -> Finding:
    place = Path(problem.file)
    return Finding(
        # What is wrong with an upstream sends its requests elsewhere, or nowhere.
        Level.ERROR if problem.key.lower() in known or is_of_family(problem.key) else Level.WARNING,
        Topic.SETTINGS,
        "该设置有问题，见下一行" if problem.key else "该文件有问题，见下一行",
        problem.reason,
        installation.shown(place) if place.is_absolute() else problem.file,
        problem.line,
        subject=problem.key,
    )


def _repeated(file: dotenv.EnvFile) -> Iterator[Finding]:
    """Keys with several different values; the last one counts."""
    first: dict[str, dotenv.Entry] = {}
    for entry in file.entries:
        before = first.setdefault(entry.key, entry)
        if before.value != entry.value:
            yield Finding(
                Level.WARNING,
                Topic.SETTINGS,
                f"与第 {before.line} 行重复且值不同，以最后一个为准",
                f"stands in line {before.line} too, with another value; the last one counts",
                CONFIG_FILE,
                entry.line,
                subject=entry.key,
            )


def _overridden(installation: Installation, file: dotenv.EnvFile) -> Iterator[Finding]:
    """Settings of the file that a variable of the process environment beats."""
    lines = file.lines()
    for name, value in file.values().items():
        if name in names() and name in installation.environ and installation.environ[name] != value:
            yield Finding(
                Level.WARNING,
                Topic.SETTINGS,
                "被操作系统的同名环境变量覆盖",
                "is overridden by a variable of the operating system",
                CONFIG_FILE,
                lines[name],
                subject=name,
            )


def _legacy_agents(installation: Installation, file: dotenv.EnvFile) -> Iterator[Finding]:
    """Agents as they were declared before there was an ``agent_map.json`` (2.3)."""
    lines = file.lines()
    for name, _ in installation.config.families.agents:
        if name in lines and name not in names():
            yield Finding(
                Level.NOTE,
                Topic.SETTINGS,
                "旧式的 Agent 设置不再读取，请改用 agent_map.json",
                "agents in config.env are not read any more; use agent_map.json",
                CONFIG_FILE,
                lines[name],
                subject=name,
            )
