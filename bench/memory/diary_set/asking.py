"""The questions of a set, each with the entries that answer it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date

from bench.memory.diary_set.absent import FAR, NEAR
from bench.memory.diary_set.dice import Dice
from bench.memory.diary_set.drafts import Draft, Shelf
from bench.memory.diary_set.facts import ASKED, ENGLISH_ASKED, ENGLISH_FACTS, FACTS
from bench.memory.diary_set.links import FORMS, KINDS, Alias
from bench.memory.diary_set.names import LABELS, PEOPLE, PLACES
from bench.memory.diary_set.phrases import TimePhrase, phrases
from bench.memory.diary_set.record import Question, QuestionClass
from bench.memory.diary_set.routines import (
    ENGLISH_LEAD_INS,
    ENGLISH_ROUTINES,
    LEAD_INS,
    ROUTINES,
    WHOLE_DAYS,
    Routine,
)
from bench.memory.diary_set.topics_more import ALL_TOPICS, ENGLISH_TOPICS, Phrase, Topic

TIME_OF_ROUTINES = 240
TIME_OF_DAYS = 60
TAGS = 180
PARAPHRASES = 240
ENGLISH_PARAPHRASES = 40
HOPS_OF_EACH = 2
UPDATES_OF_EACH = 7
ABSENT_FAR = 60
ABSENT_NEAR = 110
EXACT = 0.2
"""The share of questions about time that may give year, month and day."""
MOST_GOLD = 3
MOST_OF_A_DAY = 4
NAMED = 0.5
"""The share of paraphrase questions that call what was done by the word of the entry; all else is said otherwise."""
MOST_SHARED = 0.25
"""Of the pairs of characters of a paraphrase question, at most so many may stand in the entry that answers it."""

PARAPHRASE_FORMS = (
    "{act}，{first}，而且{second}，那次是怎么写的？",
    "有一回{act}，{first}，最后{second}，讲讲经过。",
    "{first}、{second}的那次，是{act}的时候吗？",
    "哪篇写了{act}的时候{first}，还有{second}？",
    "我记得{act}时{first}，然后{second}，细节是什么？",
    "{act}，先{first}，再{second}，当时还有谁？",
    "找一下{act}那段，{first}，{second}。",
    "{second}是因为{act}的时候{first}吧？",
    "以前{act}，{first}那一次，怎么就{second}了？",
    "{first}，{second}，这两件事碰到一起是哪回{act}？",
    "{act}遇到{first}，我们怎么办的，是不是{second}？",
    "想重温{act}的经历：{first}，{second}。",
    "什么时候{act}，{first}，弄到{second}？",
    "关于{act}，有没有{first}、{second}这样的记录？",
    "{act}碰上{first}，以{second}告终，写在哪里？",
    "朋友也{act}，也{first}，我那次{second}是怎么回事？",
    "说说{act}那天，{first}，{second}。",
    "那回{first}，我正{act}，结果{second}，对吗？",
    "{act}——{first}，{second}，帮我找出来。",
    "是不是有过{act}、{first}、又{second}的事？",
    "{first}的时候正{act}，随后{second}，谁陪着我？",
    "要写回忆录，{act}，{first}，{second}，原文呢？",
    "{second}那次{act}，起因是{first}，具体怎样？",
    "我{act}，{first}，{second}，花了多少钱？",
)
ENGLISH_PARAPHRASE_FORMS = (
    "While {act}, {first}, and {second}. What did I write?",
    "When was it that {first} during {act} and {second}?",
    "Find the time of {act} where {first}; {second}.",
    "{act}: {first}, {second}. Who was there?",
)
TAG_FORMS = (
    "标签里有“{tag}”的日记有哪些？",
    "归在“{tag}”这个标签下面的是哪几篇？",
    "把打了{tag}标签的记录找出来。",
    "我给哪些日记贴过{tag}？",
    "标了{tag}的那几篇写的什么？",
    "查看标签为{tag}的内容。",
    "带{tag}标签的日记讲了什么？",
    "用{tag}当标签的记录，列一下。",
    "#{tag} 下面都有什么？",
    "我在标签栏写过{tag}的是哪几天？",
    "{tag}这个标签我都用在哪儿了？",
    "想看看{tag}标签的文章。",
    "按标签找：{tag}。",
    "被我标记成{tag}的事情是什么？",
    "翻出所有标记了{tag}的日记。",
    "标签写着{tag}的那篇在说什么？",
    "以{tag}为标签的有没有？",
    "分类是{tag}的笔记给我看看。",
    "有没有记着{tag}这个标签的？",
    "标注{tag}的日记，帮我回顾。",
    "Tag 里写了{tag}的是什么内容？",
    "我把什么事标成了{tag}？",
    "列出 tag 是{tag}的条目。",
    "挂着{tag}标签的都是哪些？",
    "哪些事对我来说算是{tag}？",
    "关于{tag}我记过哪几件？",
    "我的{tag}都有哪些？",
    "{tag}相关的日记，给我看看。",
    "属于{tag}的是哪几次？",
    "回顾一下{tag}。",
    "算作{tag}的那几天发生了什么？",
    "{tag}那一类写过什么？",
)
TWO_TAG_FORMS = (
    "同时有{tag}和{other}两个标签的是哪篇？",
    "标签既有{other}又有{tag}的日记讲了什么？",
    "{other}类里面标了{tag}的那篇。",
    "打着{tag}、{other}标签的记录是什么？",
)


class Asker:
    """Asks about the entries of a shelf, whose paths are known by then."""

    def __init__(self, dice: Dice, shelf: Shelf, words: str) -> None:
        self.dice = dice
        self.shelf = shelf
        self.words = words
        self._asked: set[str] = set()
        self._questions: list[Question] = []

    def ask(self) -> tuple[Question, ...]:
        """All questions."""
        self._times()
        self._days()
        self._tags()
        self._paraphrases(ALL_TOPICS, PARAPHRASES, PARAPHRASE_FORMS)
        self._paraphrases(ENGLISH_TOPICS, ENGLISH_PARAPHRASES, ENGLISH_PARAPHRASE_FORMS)
        self._hops()
        self._updates()
        self._absent()
        return tuple(self._questions)

    def _put(self, kind: QuestionClass, text: str, gold: Iterable[Draft], detail: str = "") -> bool:
        if text in self._asked:
            return False
        self._asked.add(text)
        paths = tuple(sorted({draft.path for draft in gold}))
        self._questions.append(Question(kind, text, paths, detail))
        return True

    def _until(self, count: int, one: Callable[[], bool]) -> None:
        """Try until so many have come of it; a shelf that cannot give them is an error of the tables."""
        made = 0
        for _ in range(60 * count):
            made += one()
            if made == count:
                return
        raise ValueError(f"only {made} of {count} questions could be made")

    def _within(self, phrase: TimePhrase, mark: tuple[object, ...] | None) -> list[Draft]:
        return [
            draft
            for draft in self.shelf.drafts
            if phrase.first <= draft.day <= phrase.last and (mark is None or mark in draft.marks)
        ]

    def _phrase(self, day: date, english: bool, most_days: int = 400) -> TimePhrase | None:
        """Words for this day; short and long stretches have the same chance, and few give the full date."""
        exact = self.dice.chance(EXACT)
        found = [p for p in phrases(day, self.shelf.today) if p.english == english and p.days <= most_days]
        fitting = [p for p in found if exact or p.days > 1 or str(day.year) not in p.words]
        lengths = sorted({min(phrase.days, 32) // 4 for phrase in fitting})
        if not lengths:
            return None
        length = self.dice.pick(lengths)
        return self.dice.pick([phrase for phrase in fitting if min(phrase.days, 32) // 4 == length])

    def _times(self) -> None:
        dice = self.dice
        routines: list[Routine] = list(ROUTINES + ENGLISH_ROUTINES)

        def one() -> bool:
            routine = dice.pick(routines)
            held = [draft for draft in self.shelf.drafts if draft.has("routine", routine)]
            recent = [draft for draft in held if (self.shelf.today - draft.day).days <= 31]
            phrase = self._phrase(dice.pick(recent if recent and dice.chance(0.4) else held).day, routine.english)
            if phrase is None:
                return False
            gold = self._within(phrase, ("routine", routine))
            if len(gold) > MOST_GOLD:
                return False
            lead = dice.own(ENGLISH_LEAD_INS if routine.english else LEAD_INS) if dice.chance(0.5) else ""
            text = lead + dice.own(routine.asked).replace("{when}", phrase.words)
            return self._put("time", text, gold, phrase.words)

        self._until(TIME_OF_ROUTINES, one)

    def _days(self) -> None:
        """What happened on a day, whatever it was."""
        dice = self.dice

        def one() -> bool:
            recent = [draft for draft in self.shelf.drafts if (self.shelf.today - draft.day).days <= 31]
            day = dice.pick(recent if dice.chance(0.5) else self.shelf.drafts).day
            phrase = self._phrase(day, english=False, most_days=1)
            gold = self._within(phrase, None) if phrase else []
            if phrase is None or not 1 <= len(gold) <= MOST_OF_A_DAY:
                return False
            text = dice.own(WHOLE_DAYS).replace("{when}", phrase.words).replace("那天那天", "那天")
            return self._put("time", text, gold, phrase.words)

        self._until(TIME_OF_DAYS, one)

    def _tags(self) -> None:
        dice = self.dice

        def one() -> bool:
            label = dice.pick(dice.half(LABELS))
            gold = [draft for draft in self.shelf.drafts if label in draft.labels]
            if dice.chance(0.3):
                other = dice.pick([tag for draft in gold for tag in draft.tags if tag != label] or [label])
                gold = [draft for draft in gold if other in draft.tags]
                if other == label:
                    return False
                text = dice.own(TWO_TAG_FORMS).format(tag=label, other=other)
                return self._put("tag", text, gold, f"{label} {other}")
            return self._put("tag", dice.own(TAG_FORMS).format(tag=label), gold, label)

        self._until(TAGS, one)

    def _paraphrases(self, topics: tuple[Topic, ...], count: int, forms: tuple[str, ...]) -> None:
        dice, side = self.dice, 1 - self.dice.parity

        def one() -> bool:
            topic = dice.pick(topics)
            draft = dice.pick([draft for draft in self.shelf.drafts if draft.has("topic", topic)])
            first, second, who = (_phrase_of(draft, name) for name in ("first", "second", "who"))
            pair = {("first", topic, first), ("second", topic, second)}
            gold = [other for other in self.shelf.drafts if pair <= other.marks]
            told = {"act": topic.act, "first": first, "second": second, "who": who}
            words = {name: phrase.asked[side] for name, phrase in told.items()}
            if dice.chance(NAMED):
                words["act"] = topic.act.told[side]
            if topics is ALL_TOPICS and not (topic.known or words["act"].startswith("跟")) and dice.chance(0.3):
                words["act"] = f"跟{words['who']}{words['act']}"
            text = dice.own(forms).format(**words)
            if _shared(text, draft.body) > MOST_SHARED:
                return False
            return self._put("paraphrase", text[0].upper() + text[1:], gold)

        self._until(count, one)

    def _hops(self) -> None:
        for kind in KINDS:
            for alias in self.dice.half(kind.aliases):
                for _, asked in self.dice.half(kind.aspects):
                    self._hop(alias, asked)

    def _hop(self, alias: Alias, asked: str) -> None:
        marks = {("explained", alias), ("aspect", alias, asked)}
        gold = [draft for draft in self.shelf.drafts if marks & draft.marks]
        for form in self.dice.some(self.dice.half(FORMS), HOPS_OF_EACH):
            self._put("multi_hop", form.format(asked=alias.asked, ask=asked), gold, alias.name)

    def _updates(self) -> None:
        dice = self.dice
        for fact in dice.half(FACTS) + dice.half(ENGLISH_FACTS):
            gold = [draft for draft in self.shelf.drafts if draft.has("fact", fact, True)]
            forms = dice.half(ENGLISH_ASKED if fact.english else ASKED)
            for form in dice.some(forms, UPDATES_OF_EACH):
                self._put("update", form.format(asked=fact.asked, what=fact.what), gold, fact.told)

    def _absent(self) -> None:
        dice = self.dice
        strange = Dice(dice.between(0, 10**6) * 2 + 1 - dice.parity)
        aliases = [alias for kind in KINDS for alias in strange.half(kind.aliases) if alias.name not in self.words]

        def far() -> bool:
            lead = dice.own(LEAD_INS) if dice.chance(0.3) else ""
            return self._put("absent", lead + dice.own(FAR), (), "far")

        def near() -> bool:
            alias = dice.pick(aliases)
            words = {"p": strange.own(PEOPLE), "pl": strange.own(PLACES), "name": alias.name, "asked": alias.asked}
            return self._put("absent", dice.own(NEAR).format(**words), (), "near")

        self._until(ABSENT_FAR, far)
        self._until(ABSENT_NEAR, near)


def _phrase_of(draft: Draft, name: str) -> Phrase:
    """What the entry tells under this name."""
    return next(mark[2] for mark in draft.marks if mark[0] == name and isinstance(mark[2], Phrase))


def _shared(question: str, entry: str) -> float:
    """Which share of the question's pairs of neighbouring characters stands in the entry; of its words in English."""
    if question.isascii():
        words = {word.strip(".,:;?").lower() for word in question.split()}
        long = {word for word in words if len(word) > 4}
        return len(long & set(entry.lower().replace(",", " ").replace(".", " ").split())) / max(1, len(long))
    pairs = {question[place : place + 2] for place in range(len(question) - 1)}
    return sum(pair in entry for pair in pairs) / len(pairs)
