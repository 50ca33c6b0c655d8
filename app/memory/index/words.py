"""Words of texts for search by words (memory.md 9.3, 11.7): of notes, of questions, and of the baselines of the bench.

Chinese is cut by rjieba in search mode, and every run of ideographs also gives its character bigrams, so that names no
vocabulary knows are found too. Latin words are lower-cased and lightly stemmed; identifiers and versions such as
``RX-7900`` or ``v1.2.3`` are kept whole and in parts. A word holds letters, digits and ``WORD_MARKS`` only, hence it is
one token of the table, whatever a user wrote.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import rjieba

from app.protocol.token_estimate import IDEOGRAPHS

WORD_MARKS = "-_.+#@/:"
"""Characters besides letters and digits that an identifier may hold inside."""

MAX_WORD_CHARS = 40
MAX_DOCUMENT_WORDS = 20_000
MAX_QUERY_WORDS = 64
MAX_QUERY_CHARS = 4_000

_LETTER = rf"(?:(?![{IDEOGRAPHS}])\w)"
_RUNS = re.compile(rf"(?P<wide>[{IDEOGRAPHS}]+)|(?P<plain>{_LETTER}(?:{_LETTER}|[{re.escape(WORD_MARKS)}])*)")
_PARTS = re.compile(r"[0-9]+|[^\W0-9_]+")
_WEAK_MARKS = "-_.@/:"  # at the end of a word they are punctuation
_BLANK = re.compile(r"[^\w]+")

_ENGLISH = """
a an and are as at be been but by can could did do does for from had has have he her him his how i if in into is it its
me my of on or our she should so some than that the their them then there these they this those to us was we were what
when where which who whom whose why will with would you your
"""

_CHINESE = """
的 了 是 在 我 你 他 她 它 们 我们 你们 他们 她们 它们 和 与 及 或 就 都 也 还 又 很 吗 呢 吧 啊 呀 嘛 么
什么 怎么 怎样 如何 哪 哪个 哪些 哪里 哪儿 谁 为什么 多少 几 这 那 这个 那个 这些 那些 这里 那里 有 没有
把 被 给 对 从 到 向 让 使 跟 等 着 过 得 地 之 其 而 但 但是 因为 所以 如果 一个 一下 一些 请 请问
是否 是不是 有没有 时候 当时 关于
"""

STOP_WORDS = frozenset(f"{_ENGLISH} {_CHINESE}".split())
"""Words of questions that say nothing of what is asked for."""

_STOP_CHARS = frozenset("的了是在我你他她它们和与或就都也还又很吗呢吧啊呀嘛么这那哪谁把被给着过得地之其而但请")


def document_words(text: str) -> list[str]:
    """The words of a text in order, as often as they occur, at most ``MAX_DOCUMENT_WORDS``. Never raises."""
    words: list[str] = []
    for word in _words(text):
        words.append(word)
        if len(words) >= MAX_DOCUMENT_WORDS:
            break
    return words


def query_words(text: str) -> list[str]:
    """The words of a question, each once, without stop words unless there are no others; at most ``MAX_QUERY_WORDS``.

    Of a longer question the rarer-looking words stay: identifiers, then long ones, then in order.
    """
    text = text[:MAX_QUERY_CHARS]
    found = dict.fromkeys(_words(text))
    known = frozenset(rjieba.cut_for_search(unicodedata.normalize("NFKC", text).lower()))
    telling = [word for word in found if not _is_stop(word, known)] or list(found)
    if len(telling) <= MAX_QUERY_WORDS:
        return telling
    kept = set(sorted(telling, key=lambda word: (not _is_identifier(word), -len(word)))[:MAX_QUERY_WORDS])
    return [word for word in telling if word in kept]


def _words(text: str) -> Iterator[str]:
    for found in _RUNS.finditer(unicodedata.normalize("NFKC", text).lower()):
        run = found[0]
        if found.lastgroup == "wide":
            yield from _wide(run)
        else:
            yield from _plain(run)


def _wide(run: str) -> Iterator[str]:
    """Words of a run of ideographs that rjieba finds, and its bigrams; each pair of characters counts once."""
    for letters in _BLANK.split(run):  # punctuation of the same blocks
        if not letters:
            continue
        pairs = {letters[place : place + 2] for place in range(len(letters) - 1)}
        for word in rjieba.cut_for_search(letters):
            if word not in pairs:
                yield word[:MAX_WORD_CHARS]
        yield from (letters[place : place + 2] for place in range(len(letters) - 1))


def _plain(run: str) -> Iterator[str]:
    whole = run.rstrip(_WEAK_MARKS)[:MAX_WORD_CHARS]
    parts = _PARTS.findall(run)
    if not parts:
        return
    if len(parts) == 1 and parts[0] == whole:
        yield _stem(whole)
        return
    yield whole
    for part in parts:
        if part != whole and len(part) > 1:
            yield _stem(part[:MAX_WORD_CHARS])


def _stem(word: str) -> str:
    """A light stem of English words; the same for questions and notes is all that matters."""
    if not word.isascii() or len(word) < 4 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("sses"):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and re.search("[aeiouy]", word[: -len(ending)]):
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    if word.endswith("e") and len(word) > 4:
        word = word[:-1]
    return word


_STOPS = STOP_WORDS | frozenset(_stem(word) for word in STOP_WORDS)


def _is_identifier(word: str) -> bool:
    return word.isascii() and any(char.isdigit() for char in word)


def _is_stop(word: str, known: frozenset[str]) -> bool:
    """A stop word, or a bigram across the border of one: ``卡是`` of 显卡是."""
    if word in _STOPS:
        return True
    if len(word) != 2 or word in known:
        return False
    return word[0] in _STOP_CHARS or word[1] in _STOP_CHARS
