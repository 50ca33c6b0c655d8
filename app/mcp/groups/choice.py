"""Which groups fit a conversation, by its words alone. Pure: the same words have the same result everywhere."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from app.mcp.groups.groups import Group
from app.protocol.token_estimate import IDEOGRAPHS

TURNS = 12
"""So many user turns from the end decide; what was chosen in earlier ones may go."""

TURN_CHARS = 2_000
"""Of each turn, from its end."""

GROUP_CHARS = 4_000
"""Of what is known of a group."""

WINDOW = (1.0, 0.3)
"""What the words of a turn and of the one before it count when this turn is judged."""

THRESHOLD = 2.0
"""A group below it does not fit. One word in its description that few other groups have is enough, a common one not."""

NAME_WEIGHT, TOOL_WEIGHT = 3, 2
"""Words in a group's name and in names of its tools count as often."""

_GENERAL_GROUPS = 10
"""As if there were so many further groups about anything else: a word is rare in the language, not among two groups."""

_SATURATION, _LENGTH = 1.2, 0.5  # k1 and b of BM25

_WORDS = re.compile(rf"[{IDEOGRAPHS}]+|[^\W_{IDEOGRAPHS}]+")
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])")

_SAYS_LITTLE = """
a about all also an and any are as at be been but by can cannot could did do does for from get give given had has have
help her here his how if in into is it its just let like make may me might more most my need new no not now of on one
only or other our out please provide provides should so some such than that the their them then there these they this
those to tool tools up us use used user users using very want was we were what when where which who will with would
you your
一个 一下 什么 可以 我们 你们 他们 这个 那个 怎么 怎样 如何 需要 使用 工具 帮我 请你 进行 以及 或者 没有 不是 就是 现在
时候 提供 用于 关于 相关 各种 支持 用户 能够 如果 因为 所以 但是 还是 已经 知道 看看 一些
"""
_STOP_WORDS = frozenset(_SAYS_LITTLE.split())
"""Words that tell no group from another, in requests and in descriptions."""


def terms(text: str) -> list[str]:
    """The words that are compared: pairs of neighbouring ideographs, words of letters in lower case, singular."""
    found: list[str] = []
    for word in _WORDS.findall(_HUMPS.sub(" ", text)):
        if _is_ideographic(word):
            found += (word[place : place + 2] for place in range(len(word) - 1)) if len(word) > 1 else (word,)
        else:
            found.append(_singular(word.lower()))
    return [term for term in found if term not in _STOP_WORDS]


_IDEOGRAPHIC = re.compile(f"[{IDEOGRAPHS}]")


def _is_ideographic(word: str) -> bool:
    return _IDEOGRAPHIC.match(word) is not None


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


class GroupIndex:
    """Scores groups against words, as BM25 does. Made once for a set of groups; never changes."""

    def __init__(self, groups: Iterable[Group]) -> None:
        counts = {group.name: _counted(group) for group in groups}
        lengths = {name: sum(words.values()) for name, words in counts.items()}
        average = sum(lengths.values()) / len(lengths) if lengths else 0.0
        known = len(counts) + _GENERAL_GROUPS
        holders: dict[str, dict[str, int]] = {}
        for name, words in counts.items():
            for term, times in words.items():
                holders.setdefault(term, {})[name] = times
        self._gains: dict[str, tuple[tuple[str, float], ...]] = {}
        for term, held in holders.items():
            rarity = math.log(1 + (known - len(held) + 0.5) / (len(held) + 0.5))
            self._gains[term] = tuple(
                (name, rarity * times * (_SATURATION + 1) / (times + _SATURATION * _stretch(lengths[name], average)))
                for name, times in held.items()
            )
        self._order = {name: place for place, name in enumerate(counts)}

    def fitting(self, turns: Sequence[frozenset[str]], count: int) -> list[str]:
        """At most ``count`` groups that fit the last of ``turns``, each a set of words; the best first."""
        weights: dict[str, float] = {}
        for weight, words in zip(WINDOW, reversed(turns), strict=False):
            for word in words:
                weights.setdefault(word, weight)
        scores: dict[str, float] = {}
        for word in sorted(weights):  # sums of floats depend on their order
            for name, gain in self._gains.get(word, ()):
                scores[name] = scores.get(name, 0.0) + weights[word] * gain
        fit = (name for name, score in scores.items() if score >= THRESHOLD)
        return heapq.nsmallest(count, fit, key=lambda name: (-scores[name], self._order[name]))


def _stretch(length: int, average: float) -> float:
    return 1 - _LENGTH + _LENGTH * length / average if average else 1.0


def _counted(group: Group) -> Counter[str]:
    words: Counter[str] = Counter()
    left = GROUP_CHARS
    for weight, text in ((NAME_WEIGHT, group.name), (1, group.description), *_tool_names(group.members)):
        for term in terms(text[:left]):
            words[term] += weight
        left -= len(text)
        if left <= 0:
            break
    return words


def _tool_names(members: Mapping[str, object]) -> Iterable[tuple[int, str]]:
    return ((TOOL_WEIGHT, name) for name in members)


def chosen_groups(index: GroupIndex, user_texts: Sequence[str], count: int) -> list[str]:
    """The groups for a conversation, in the order in which they were first chosen.

    The choice is made for each user turn in its place, so that the same history always leads to the same groups: what
    was chosen once stays while at most ``count`` are chosen; then the one that has not fitted for longest makes room.
    """
    words = [frozenset(terms(text[-TURN_CHARS:])) for text in user_texts[-TURNS:]]
    last_fit: dict[str, int] = {}
    for turn in range(len(words)):
        fitting = index.fitting(words[max(0, turn + 1 - len(WINDOW)) : turn + 1], count)
        for place, name in enumerate(fitting):
            last_fit[name] = turn * (count + 1) + count - place
        while len(last_fit) > count:
            del last_fit[min(last_fit, key=lambda name: last_fit[name])]
    return list(last_fit)
