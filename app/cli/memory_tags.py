"""``vcp memory tags``: the tag lines of all notes, which are wrong or missing, and their repair (memory.md 1.4)."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from app.cli.options import EXIT_FAILED, EXIT_OK, Commands, home_option, reader
from app.cli.terminal import printable
from app.config.program_files import program_plugins
from app.config.snapshot import Config
from app.errors import both
from app.memory.diaries.clusters import CLUSTER_SUFFIX
from app.memory.diaries.notebooks import existing_notebook, notebooks
from app.memory.diaries.tag_check import Repaired, TagState, check_notes, pausing, repair
from app.memory.diaries.tag_model import read_tag_model

DEFAULT_WAIT = 2.0
MAX_WAIT = 3600.0
WRITER = "DailyNoteWrite"
"""The plugin whose folder holds the prompt of the tag model."""

_STATES = {
    TagState.VALID: both("正确", "valid"),
    TagState.REPAIRABLE: both("可修复", "repairable"),
    TagState.MISSING: both("缺少标签", "without tags"),
    TagState.UNREADABLE: both("无法读取", "cannot be read"),
}


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("检查日记的标签行", "check the tag lines of notes")
    more = both(
        "不带 --fix 时不做任何改动。退出码：0 全部正确或已修复，1 还有问题",
        "Nothing is changed without --fix. Exit code: 0 all are right or repaired, 1 some are not",
    )
    parser = commands.add_parser("tags", parents=[home_option()], help=text, description=f"{text}. {more}.")
    parser.add_argument("--folder", default="", metavar="NAME", help=both("只检查这个日记本", "this notebook only"))
    parser.add_argument(
        "--fix",
        action="store_true",
        help=both("修复标签行，缺少的请 TagModel 生成", "repair them; those that are missing come from TagModel"),
    )
    parser.add_argument(
        "--wait",
        type=_seconds,
        default=DEFAULT_WAIT,
        metavar="SECONDS",
        help=both(f"两次请求模型之间的秒数，默认 {DEFAULT_WAIT:g}", f"between requests, {DEFAULT_WAIT:g} by default"),
    )
    parser.set_defaults(run=_tags)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= MAX_WAIT:
        raise argparse.ArgumentTypeError(both(f"应为 0 到 {MAX_WAIT:g} 的秒数", f"seconds from 0 to {MAX_WAIT:g}"))
    return seconds


def _tags(options: argparse.Namespace) -> int:
    config = reader(options)()
    root = config.notebooks
    if options.folder:
        existing_notebook(root, options.folder)
    names = [options.folder] if options.folder else _tagged_notebooks(root, config)
    ask, why = _asker(config, options.wait) if options.fix else (None, "")
    counts: Counter[TagState] = Counter()
    failed = repaired = 0
    for checked in (one for name in names for one in check_notes(root, name)):
        counts[checked.state] += 1
        if checked.state is TagState.VALID:
            continue
        name = printable(checked.path.relative_to(root).as_posix())
        if not options.fix or checked.state is TagState.UNREADABLE:
            print(f"{_STATES[checked.state]}: {name}" + (f" -> {printable(checked.line)}" if checked.line else ""))
            continue
        done = repair(checked, ask)
        print(_told(name, done, why), flush=True)
        repaired += bool(done.line)
        failed += not done.line
    print(", ".join(f"{_STATES[state]}: {counts[state]}" for state in TagState))
    if options.fix:
        print(both(f"已修复 {repaired}，未能修复 {failed}", f"repaired: {repaired}, not repaired: {failed}"))
        return EXIT_FAILED if failed or counts[TagState.UNREADABLE] else EXIT_OK
    wrong = counts.total() - counts[TagState.VALID]
    if wrong:
        print(both("加 --fix 进行修复", "--fix repairs them"))
    return EXIT_FAILED if wrong else EXIT_OK


def _tagged_notebooks(root: Path, config: Config) -> list[str]:
    """All notebooks whose notes should have tags: not those that are never indexed, and no thought clusters."""
    settings = config.settings
    prefixes, suffixes = settings.ignore_prefixes, (*settings.ignore_suffixes, CLUSTER_SUFFIX)
    return [
        name
        for name in notebooks(root)
        if name not in settings.ignore_folders and not name.startswith(prefixes) and not name.endswith(suffixes)
    ]


def _told(name: str, done: Repaired, no_model: str) -> str:
    if done.line:
        return f"{both('已修复', 'repaired')}: {name} -> {printable(done.line)}"
    return f"{both('未能修复', 'not repaired')}: {name}: {printable(no_model or done.why)}"


def _asker(config: Config, wait: float) -> tuple[Callable[[str], str] | None, str]:
    """Asks the tag model, or None and why there is none."""
    model, why, _ = read_tag_model(config.environ)
    if model is None:
        return None, why
    from app.memory.diaries.tagging import tags_for  # the HTTP client takes longer to load than all the rest

    folders: tuple[Path, ...] = (config.home / "Plugin" / WRITER, program_plugins() / WRITER)
    return pausing(lambda text: tags_for(text, model, folders), wait), ""
