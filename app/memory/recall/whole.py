"""Whole notebooks and files, for the forms ``{{X日记本…}}`` and ``<<X日记本…>>`` (memory.md 2.2, 2.5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

from app.prompt.diaries import Notebooks
from app.protocol.prompt_texts import DIARY_SEPARATOR, diary_empty, diary_missing
from app.protocol.recall_modifiers import Modifiers

_PUNCTUATION = re.compile(r"[-._ ]+")


def whole_text(notebooks: Notebooks, names: Sequence[str], modifiers: Modifiers, random: Callable[[], Random]) -> str:
    """The text of the notebooks, or of the files that ``::Last`` and ``::Random`` choose among all of them. Blocks.

    Of both, the newest are taken first and the random ones among the others. Files are newest by their names, which
    begin with dates, however the parts of a date are parted.
    """
    if modifiers.last is None and modifiers.random is None:
        return _all(notebooks, names)
    files = [(name, file) for name in names for file in notebooks.files(name) or ()]
    title = "|".join(names)
    if not files:
        return diary_missing(title) if all(notebooks.files(name) is None for name in names) else diary_empty(title)
    files.sort(key=lambda item: (_PUNCTUATION.sub("-", item[1]), item[0]))
    newest = files[len(files) - modifiers.last :] if modifiers.last is not None and modifiers.last < len(files) else []
    if modifiers.last is not None and modifiers.last >= len(files):
        newest = files
    others = files[: len(files) - len(newest)]
    chosen = set(newest)
    if modifiers.random is not None:
        chosen |= set(random().sample(others, min(modifiers.random, len(others))))
    return notebooks.read_files([file for file in files if file in chosen], title)


def _all(notebooks: Notebooks, names: Sequence[str]) -> str:
    texts: list[str] = []
    left = notebooks.max_chars
    for name in names:
        text = notebooks.read(name, max(0, left))
        texts.append(diary_missing(name) if text is None else text)
        left -= len(texts[-1])
    return DIARY_SEPARATOR.join(texts)
