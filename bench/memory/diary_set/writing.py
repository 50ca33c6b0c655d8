"""The entries: happenings, routines, facts that change, and things with two names, spread over two years."""

from __future__ import annotations

from datetime import date, timedelta

from bench.memory.diary_set.dice import Dice
from bench.memory.diary_set.drafts import LONGEST, Draft, Shelf, fill
from bench.memory.diary_set.facts import (
    CHANGED,
    ENGLISH_CHANGED,
    ENGLISH_FACTS,
    ENGLISH_FIRST_TOLD,
    ENGLISH_MENTIONED,
    FACTS,
    FIRST_TOLD,
    MENTIONED,
    Fact,
)
from bench.memory.diary_set.links import KINDS
from bench.memory.diary_set.names import (
    ENGLISH,
    ERRANDS,
    ERRANDS_ENGLISH,
    KNOWLEDGE,
    LABELS,
    MISSED,
    MOODS,
    PASSING,
    PRIVATE,
    SHARED,
    SMALL,
    SMALL_ENGLISH,
    WEATHER,
)
from bench.memory.diary_set.routines import ENGLISH_ROUTINES, ROUTINES, Routine
from bench.memory.diary_set.topics_more import ALL_TOPICS, COMPANIONS, ENGLISH_COMPANIONS, ENGLISH_TOPICS, Topic

TOPIC_ENTRIES = 16
ROUTINE_ENTRIES = 21
ENGLISH_ROUTINE_ENTRIES = 16
RECENT_DAYS = 28

CORES = (
    "今天{act}，跟{who}一起。{first}，{second}。",
    "和{who}{act}。{first}。说来好笑，{second}。",
    "{act}，同去的有{who}。没想到{first}，结果{second}。",
    "陪{who}{act}的一天。先是{first}，后来{second}。",
    "总算{act}了，{who}也在。中间{first}，{second}。",
    "{who}拉着我{act}。{first}，谁也没料到。到头来{second}。",
)
KNOWN_CORES = (
    "{act}的经过记在这里，{who}在场。问题是{first}，做法：{second}。",
    "{act}笔记。现象：{first}。{who}看过之后，{second}。",
    "跟{who}一起{act}，要点是{first}的情形，最后{second}。",
    "关于{act}，补一条：{first}，{second}。经手的还有{who}。",
)
ENGLISH_CORES = (
    "Spent the day {act} with {who}. {first}, {second}.",
    "Today was all about {act}; {who} joined. {first}, {second}.",
    "{act} together with {who} took the whole day. {first}, {second}.",
    "Back from {act}, {who} came along. {first}, {second}.",
)


class Writer:
    """Writes all entries of a seed onto a shelf."""

    def __init__(self, dice: Dice, today: date) -> None:
        self.dice = dice
        self.shelf = Shelf(dice, today)
        self.private = PRIVATE[dice.parity]
        self.known = KNOWLEDGE[dice.parity]
        self.english = ENGLISH[dice.parity]

    def write(self) -> Shelf:
        """Everything, in an order that only the seed decides."""
        for topic in ALL_TOPICS:
            self._topic(topic, english=False)
        for topic in ENGLISH_TOPICS:
            self._topic(topic, english=True)
        for routine in ROUTINES:
            self._routine(routine, ROUTINE_ENTRIES)
        for routine in ENGLISH_ROUTINES:
            self._routine(routine, ENGLISH_ROUTINE_ENTRIES)
        for fact in self.dice.half(FACTS) + self.dice.half(ENGLISH_FACTS):
            self._fact(fact)
        self._aliases()
        self._labels()
        self._pass_the_time()
        return self.shelf

    def _diary(self) -> tuple[str, str]:
        """A notebook and its author: a private one, sometimes the shared one."""
        author = self.dice.pick(self.private)
        return (SHARED, author) if self.dice.chance(0.2) else (author, author)

    def _new(self, day: date, english: bool, known: bool = False) -> Draft:
        if english:
            return self.shelf.add(day, self.english, self.english, english=True)
        if known:
            notebook = self.dice.pick(self.known)
            return self.shelf.add(day, notebook, notebook.removesuffix("的知识"))
        return self.shelf.add(day, *self._diary())

    def _topic(self, topic: Topic, english: bool) -> None:
        dice, side = self.dice, 1 - self.dice.parity
        companions = ENGLISH_COMPANIONS if english else COMPANIONS
        pairs = [(first, second) for first in topic.first for second in topic.second]
        for first, second in dice.some(pairs, TOPIC_ENTRIES):
            who = dice.pick(companions)
            draft = self._new(self.shelf.any_day(), english, topic.known)
            cores = ENGLISH_CORES if english else KNOWN_CORES if topic.known else CORES
            said = first.told[side]
            told = fill(
                dice,
                dice.own(cores),
                act=topic.act.told[side],
                who=who.told[side],
                first=said[0].upper() + said[1:],
                second=second.told[side],
            )
            draft.tell(
                told, *(fill(dice, detail) for detail in dice.some(dice.half(topic.details), dice.between(1, 2)))
            )
            draft.tags.extend(topic.tags)
            draft.marks |= {("topic", topic), ("first", topic, first), ("second", topic, second), ("who", topic, who)}

    def _routine(self, routine: Routine, count: int) -> None:
        dice = self.dice
        days = {self.shelf.any_day() for _ in range(count - 3)}
        days |= {self.shelf.today - timedelta(days=1 + dice.below(RECENT_DAYS)) for _ in range(3)}
        hosts = [
            draft for draft in self.shelf.drafts if draft.english == routine.english and draft.notebook in self.private
        ]
        for day in sorted(days):
            if hosts and dice.chance(0.15):
                draft = dice.pick(hosts)
                if any(mark[0] == "routine" for mark in draft.marks):
                    continue
            else:
                draft = self._new(day, routine.english)
            draft.tell(fill(dice, dice.own(routine.told)))
            draft.tags.extend(tag for tag in routine.tags if tag not in draft.tags)
            draft.marks.add(("routine", routine))

    def _fact(self, fact: Fact) -> None:
        dice = self.dice
        first = ENGLISH_FIRST_TOLD if fact.english else FIRST_TOLD
        changed = ENGLISH_CHANGED if fact.english else CHANGED
        mentioned = ENGLISH_MENTIONED if fact.english else MENTIONED
        days = sorted({self.shelf.any_day() for _ in range(dice.between(4, 6))})
        old, values = "", set[str]()
        for version, day in enumerate(days):
            value = fill(dice, fact.value)
            while value in values:
                value = fill(dice, fact.value)
            values.add(value)
            draft = self._new(day, fact.english)
            template = dice.own(changed if version else first)
            draft.tell(self._filler(fact.english), fill(dice, template, told=fact.told, value=value, old=old))
            draft.tags.append("note" if fact.english else "备忘录")
            draft.marks.add(("fact", fact, version == len(days) - 1))
            old = value
        if dice.chance(0.7):
            draft = self._new(self.shelf.any_day(), fact.english)
            draft.tell(fill(dice, dice.own(mentioned), told=fact.told), self._filler(fact.english))
            draft.tags.append("chat" if fact.english else "闲聊")

    def _aliases(self) -> None:
        dice = self.dice
        for kind in KINDS:
            for alias in dice.half(kind.aliases):
                draft = self._new(self.shelf.any_day(), english=False)
                draft.tell(fill(dice, dice.own(kind.explained), told=alias.told, name=alias.name), self._filler())
                draft.tags.extend((alias.name, kind.tag))
                draft.marks.add(("explained", alias))
                for told, asked in dice.half(kind.aspects):
                    draft = self._new(self.shelf.any_day(), english=False)
                    draft.tell(self._filler(), fill(dice, told, name=alias.name))
                    draft.tags.append(alias.name if dice.chance(0.7) else "日常")
                    draft.marks.add(("aspect", alias, asked))

    def _labels(self) -> None:
        """Words that stand on the tag lines of a few entries, and in the bodies of others that do not carry them."""
        dice = self.dice
        for label in dice.half(LABELS):
            for draft in dice.some([draft for draft in self.shelf.drafts if len(draft.labels) < 2], dice.between(2, 5)):
                draft.tags.append(label)
                draft.labels.add(label)
            others = [draft for draft in self.shelf.drafts if label not in draft.labels and not draft.english]
            for draft in dice.some(others, dice.between(4, 8)):
                draft.tell(fill(dice, dice.own(PASSING), label=label))

    def _pass_the_time(self) -> None:
        """Weather, moods and small things around what is told, as in any diary."""
        dice = self.dice
        acts = [topic.act.told[1 - dice.parity] for topic in ALL_TOPICS]
        for draft in self.shelf.drafts:
            wanted = dice.between(60, LONGEST - 80 if dice.chance(0.15) else 240)
            weather = dice.own(WEATHER)
            if not draft.english and dice.chance(0.12):
                draft.tell(fill(dice, dice.own(MISSED), act=dice.pick(acts)))
            if not draft.english and dice.chance(0.3) and weather not in draft.sentences:
                draft.sentences.insert(0, weather)
            small = dice.half(SMALL_ENGLISH) if draft.english else dice.half(SMALL) + dice.half(MOODS)
            errands = dice.half(ERRANDS_ENGLISH if draft.english else ERRANDS)
            others = dice.some(errands, len(errands)) + dice.some(small, len(small) // 3)
            for sentence in dice.some(others, len(others)):
                told = fill(dice, sentence)
                if len(draft.body) + len(told) > wanted:
                    break
                if told not in draft.sentences:
                    draft.tell(told)
            if not draft.tags:
                draft.tags.append("日常")

    def _filler(self, english: bool = False) -> str:
        return self.dice.own(SMALL_ENGLISH) if english else self.dice.own(WEATHER if self.dice.chance(0.5) else SMALL)
