from __future__ import annotations

from app.memory.recall.cache import MAX_ENTRY_CHARS, AnswerCache, cache_key


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_answers_live_for_their_time_and_the_least_used_goes_first() -> None:
    time = Time()
    cache: AnswerCache[str] = AnswerCache(lambda: 2, lambda: 10, time)
    cache.put("a", "A", 1)
    cache.put("b", "B", 1)
    assert cache.get("a") == "A"
    cache.put("c", "C", 1)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ("A", None, "C")
    time.now = 10
    assert cache.get("a") is None
    assert (cache.hits, cache.misses, len(cache)) == (3, 2, 1)


def test_a_size_of_zero_and_what_is_huge_keep_nothing() -> None:
    none: AnswerCache[str] = AnswerCache(lambda: 0, lambda: 10, Time())
    none.put("a", "A", 1)
    assert none.get("a") is None
    some: AnswerCache[str] = AnswerCache(lambda: 5, lambda: 10, Time())
    some.put("a", "A", MAX_ENTRY_CHARS + 1)
    assert some.get("a") is None


def test_keys_tell_parts_apart() -> None:
    assert cache_key("a", "b") != cache_key("ab", "")
    assert cache_key("a", ("b",)) == cache_key("a", ("b",))
    assert len(cache_key("\ud800")) == 64
