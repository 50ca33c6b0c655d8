"""What is measured: passages, the documents that they belong to, and questions with the passages that answer them.

Public sets are read where they lie, from the folder that ``VCP_BENCH_DATA`` names; nothing of them is kept.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from app.memory.index.chunks import cut_text, embedded_text
from app.protocol.diary_head import read_note_head
from app.protocol.diary_tags import read_tags
from bench.memory.diary_set import DiarySet

DATA = "VCP_BENCH_DATA"
MOST_MEMBERS = 100
LARGEST = 64 * 1024 * 1024
"""No file of a set may be larger, packed or not."""
LCQMC_QUESTIONS = 500
LCQMC_PASSAGES = 3000


class SetError(ValueError):
    """A file of a public set is not what it should be."""


@dataclass(frozen=True, slots=True)
class Passage:
    """What is embedded and found: one chunk of a document.

    ``header`` holds what the document says about itself (date, author, tags); ``text`` is the chunk. ``place`` counts
    the passages of a document from 0, so that neighbours are known. ``id`` is what questions name.
    """

    id: str
    document: str
    place: int
    text: str
    header: str = ""
    notebook: str = ""
    day: date | None = None

    @property
    def whole(self) -> str:
        """Header and text, as they are embedded and indexed."""
        return f"{self.header}\n{self.text}" if self.header else self.text


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to one corpus of a set; ``gold`` names passages, or documents where a set judges by documents."""

    text: str
    gold: frozenset[str]
    kind: str
    corpus: str


@dataclass(frozen=True, slots=True)
class RetrievalSet:
    """Passages in separate corpora (a dialogue, a collection) and questions, each to one of them."""

    name: str
    corpora: Mapping[str, tuple[Passage, ...]]
    questions: tuple[Asked, ...]
    now: datetime | None = None
    by_document: bool = False
    notes: Mapping[str, str] | None = None
    """The files of the documents, by their path below the folder of notebooks; None where passages are all there is."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a public set comes from, and on which terms."""

    name: str
    file: str
    origin: str
    terms: str
    load: Callable[[Path], RetrievalSet]


def cmrc(file: Path) -> RetrievalSet:
    """Which passage a question was written from."""
    passages, questions = [], []
    for entry in _document(file)["data"]:
        for paragraph in entry["paragraphs"]:
            name = str(paragraph["id"])
            passages.append(Passage(name, name, 0, paragraph["context"]))
            for asked in paragraph["qas"]:
                questions.append(Asked(asked["question"], frozenset({name}), "passage", "all"))
    return RetrievalSet("CMRC 2018 dev", {"all": tuple(passages)}, tuple(questions))


LOCOMO_KINDS = {1: "multi-hop", 2: "time", 3: "common sense", 4: "single-hop"}
_TURN = re.compile(r"D\d+:\d+")


def locomo(file: Path) -> RetrievalSet:
    """Which turns of a long dialogue answer a question; a session is a document, a turn is a passage.

    Questions of the adversarial class and those without evidence that exists are left out.
    """
    corpora: dict[str, tuple[Passage, ...]] = {}
    questions = []
    for name, talk in _members(file):
        turns = tuple(_turns(name, talk))
        known = {turn.id for turn in turns}
        corpora[name] = turns
        for asked in talk["qa"]:
            kind = LOCOMO_KINDS.get(asked["category"])
            gold = frozenset(f"{name}/{turn}" for turn in asked.get("evidence", ())) & known
            if kind and gold:
                questions.append(Asked(str(asked["question"]), gold, kind, name))
    return RetrievalSet("LoCoMo turns", corpora, tuple(questions))


def _turns(name: str, talk: dict[str, Any]) -> Iterator[Passage]:
    sessions = sorted((key for key in talk if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:]))
    for session in sessions:
        told = re.search(r"on (\d+ \w+, \d+)$", str(talk.get(f"{session}_date_time", "")))
        day = datetime.strptime(told.group(1), "%d %B, %Y").date() if told else None
        for place, turn in enumerate(talk[session]):
            shown = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
            text = f"{turn['speaker']}: {turn['text']}{shown}"
            yield Passage(f"{name}/{turn['dia_id']}", f"{name}/{session}", place, text, notebook=name, day=day)


def sts_b(file: Path) -> RetrievalSet:
    """Which of all second sentences says the same (4 or 5 of 5) as a first one."""
    rows = [row for row in _rows(file)]
    passages = tuple(Passage(text, text, 0, text) for text in dict.fromkeys(second for _, second, _ in rows))
    questions = tuple(
        Asked(first, frozenset({second}), "paraphrase", "all")
        for first, second, alike in rows
        if int(alike) >= 4 and first != second
    )
    return RetrievalSet("STS-B zh", {"all": passages}, questions)


def lcqmc(file: Path) -> RetrievalSet:
    """Which of 3,000 questions means the same as one of 500: the first pairs of the file that are alike."""
    rows = [row for row in _rows(file)]
    alike = [(first, second) for first, second, same in rows if same == "1" and first != second]
    asked = list(dict.fromkeys(alike))[:LCQMC_QUESTIONS]
    texts = list(dict.fromkeys([second for _, second in asked] + [second for _, second, _ in rows]))[:LCQMC_PASSAGES]
    passages = tuple(Passage(text, text, 0, text) for text in texts)
    questions = tuple(Asked(first, frozenset({second}), "paraphrase", "all") for first, second in asked)
    return RetrievalSet("LCQMC", {"all": passages}, questions)


SOURCES = (
    Source("CMRC 2018 dev", "cmrc2018_dev.json", "github.com/ymcui/cmrc2018, squad-style-data", "CC BY-SA 4.0", cmrc),
    Source(
        "LoCoMo turns",
        "locomo10.zip",
        "github.com/snap-research/locomo, data",
        "those of that project; for research, not to be passed on",
        locomo,
    ),
    Source(
        "STS-B zh", "sts-b-zh-test.txt", "github.com/zejunwang1/CSTS", "those of the original corpus (STS-B)", sts_b
    ),
    Source("LCQMC", "lcqmc-test.txt", "github.com/zejunwang1/CSTS", "those of the original corpus (LCQMC)", lcqmc),
)


def public_sets(tell: Callable[[str], None]) -> Iterator[RetrievalSet]:
    """The sets whose files are there; of the others ``tell`` hears that they are not measured, and where they are."""
    named = os.environ.get(DATA)
    for source in SOURCES:
        file = Path(named) / source.file if named else None
        if file is None or not file.is_file():
            why = f"{file} is not there" if file else f"{DATA} is not set"
            tell(f"{source.name}: not measured ({why}). File {source.file} of {source.origin}; terms: {source.terms}.")
        else:
            yield source.load(file)


def diaries(made: DiarySet) -> RetrievalSet:
    """The generated diaries, cut and with headers as our index makes them of the files; judged by entries."""
    passages = []
    for note in made.notes:
        head = read_note_head(note.text, PurePosixPath(note.path).name)
        tags = read_tags(note.text, (), ())
        for place, chunk in enumerate(cut_text(note.text)):
            header, _, body = embedded_text(head, tags, note.text, chunk).partition("\n")
            passages.append(Passage(f"{note.path}#{place}", note.path, place, body, header, note.notebook, note.day))
    questions = tuple(Asked(asked.text, frozenset(asked.gold), asked.kind, "all") for asked in made.questions)
    texts = {note.path: note.text for note in made.notes}
    name = f"diaries, seed {made.seed}"
    return RetrievalSet(name, {"all": tuple(passages)}, questions, made.now, by_document=True, notes=texts)


def _document(file: Path) -> Any:
    if file.stat().st_size > LARGEST:
        raise SetError(f"{file} has more than {LARGEST} bytes")
    return json.loads(file.read_text("utf-8"))


def _rows(file: Path) -> Iterator[tuple[str, str, str]]:
    if file.stat().st_size > LARGEST:
        raise SetError(f"{file} has more than {LARGEST} bytes")
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        parts = line.split("\t")
        if len(parts) != 3:
            raise SetError(f"{file}, line {number}: three columns are needed")
        yield parts[0], parts[1], parts[2]


def _members(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The dialogues of the archive by the stem of their names; read in place."""
    with zipfile.ZipFile(file) as archive:
        members = sorted(member.filename for member in archive.infolist() if member.filename.endswith(".json"))
        if len(members) > MOST_MEMBERS:
            raise SetError(f"{file} has more than {MOST_MEMBERS} members")
        for member in members:
            if archive.getinfo(member).file_size > LARGEST:
                raise SetError(f"{member} of {file} has more than {LARGEST} bytes")
            yield Path(member).stem, json.loads(archive.read(member))
