"""Words of a text for BM25: those that rjieba finds, pairs of CJK characters, English words without endings."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_RUNS = re.compile(r"[a-z0-9]+(?:[._'-][a-z0-9]+)*|[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_PARTS = re.compile(r"[._'-]")
_ENDINGS = (("sses", "ss"), ("ies", "y"), ("ing", ""), ("edly", ""), ("ed", ""), ("es", "e"), ("ly", ""), ("s", ""))
SHORTEST_STEM = 3
_COMMON = """a an and are as at be been but by did do does for from had has have he her his how i in is it its of on or
she that the their them they this to was were what when where which who why will with you your"""
COMMON = frozenset(_COMMON.split())


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """An English word without the most usual endings; numbers and short words stay."""
    if not word.isalpha() or word.endswith("ss"):
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) + len(instead) >= SHORTEST_STEM:
            word = word[: len(word) - len(ending)] + instead
            if ending in ("ing", "ed") and len(word) > SHORTEST_STEM and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > SHORTEST_STEM else word


def words(text: str) -> list[str]:
    """All words of it, in their order; a pair of characters that is also a word counts once."""
    import rjieba

    found: list[str] = []
    for run in _RUNS.findall(unicodedata.normalize("NFKC", text).lower()):
        if run[0].isascii():
            parts = _PARTS.split(run)
            found.extend(stem(part) for part in parts if part and part not in COMMON)
            if len(parts) > 1:
                found.append(run)
        else:
            found.extend(run[place : place + 2] for place in range(len(run) - 1))
            found.extend(word for word in rjieba.cut_for_search(run) if len(word) > 2 or len(run) == 1)
    return found
