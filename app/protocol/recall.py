"""Declarations of recall in prompts: what stands in double brackets, read from left to right (memory.md 2.2, 2.5).

One pattern finds all forms in one pass. Neither a name nor a modifier holds a double bracket, a bracket of its own form
or a line break; an opener without its closer is text like any other. Reading never raises: what is not known is told
as a warning and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from app.protocol.prompt_texts import DIARY_SUFFIX as DIARY
from app.protocol.recall_chains import ChainCall, read_chain_call
from app.protocol.recall_frames import THINKING_CHAIN as CHAIN
from app.protocol.recall_modifiers import MAX_WARNING_CHARS, Modifiers, read_modifiers

KNOWLEDGE = "知识库"
LICENCE = "AIMemo=True"

MAX_NOTEBOOKS = 64
"""Notebooks of one aggregate ``A|B``; further ones are left out with a warning."""

MAX_SHOWN_CHARS = 200
"""Of a declaration in the log: clients write them too."""

_DOUBLE = r"(?!\{\{|\}\}|\[\[|\]\]|<<|>>|《《|》》)"


def _form(opener: str, closer: str, own: str, wanted: str) -> str:
    """A form whose text holds one of ``wanted``; the look-ahead stops at the first bracket, so all stays linear."""
    inner = rf"[^{own}\r\n]"
    return rf"{opener}(?=[^{own}<>\r\n]*(?:{wanted}))(?:{_DOUBLE}{inner})*+{closer}"


DECLARATION = re.compile(
    "|".join(
        (
            _form(r"\{\{", r"\}\}", r"{}", rf"{DIARY}[ \t]*[:：]"),
            _form(r"\[\[", r"\]\]", r"\[\]", rf"{DIARY}|{KNOWLEDGE}|{CHAIN}|(?i:{LICENCE})"),
            _form("<<", ">>", "", DIARY),
            _form("《《", "》》", "《》", rf"{DIARY}|{KNOWLEDGE}"),
        )
    )
)
"""Finds what may be a declaration; ``read_declaration`` says whether it is one. The plain ``{{X日记本}}`` is not here:
the prompt engine fills it by itself.
"""

_NAME_END = re.compile(r"(日记本|知识库)[ \t]*(?=[:：]|\Z)")
_ANY_NAME_END = re.compile(DIARY)


class Form(StrEnum):
    """What is injected, by the brackets (2.2)."""

    FULL = "{{"
    FRAGMENTS = "[["
    GATED_FULL = "<<"
    GATED_FRAGMENTS = "《《"

    @property
    def gated(self) -> bool:
        """Filled only where the notebook is near the question."""
        return self in (Form.GATED_FULL, Form.GATED_FRAGMENTS)

    @property
    def full(self) -> bool:
        """Whole files and not fragments."""
        return self in (Form.FULL, Form.GATED_FULL)


@dataclass(frozen=True, slots=True)
class NotebookDeclaration:
    """``[[X日记本…]]`` and its kin. ``name`` is what stands before 日记本, ``notebooks`` its parts (``A|B``).

    ``cold`` is ``X知识库``: a folder of ``knowledge/`` instead of a notebook. Two that are equal without ``text`` and
    ``warnings`` ask for the same.
    """

    text: str
    form: Form
    name: str
    notebooks: tuple[str, ...]
    modifiers: Modifiers
    warnings: tuple[str, ...] = ()
    cold: bool = False

    @property
    def shown(self) -> str:
        """Its text as logs show it."""
        return self.text[:MAX_SHOWN_CHARS]

    @property
    def title(self) -> str:
        """The name as frames show it (2.7: NAME)."""
        return self.name + (KNOWLEDGE if self.cold else DIARY)

    @property
    def asks(self) -> tuple[Form, tuple[str, ...], Modifiers, bool]:
        """What it asks for; equal for identical repeats, however they are written."""
        return self.form, self.notebooks, self.modifiers, self.cold


@dataclass(frozen=True, slots=True)
class ChainDeclaration:
    """``[[VCP元思考…]]`` (5.5)."""

    text: str
    call: ChainCall
    warnings: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Its text as logs show it."""
        return self.text[:MAX_SHOWN_CHARS]


@dataclass(frozen=True, slots=True)
class LicenceToken:
    """``[[AIMemo=True]]``: allows ``::AIMemo`` in this request and is always taken out (2.5)."""

    text: str
    warnings: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Its text as logs show it."""
        return self.text[:MAX_SHOWN_CHARS]


Declaration = NotebookDeclaration | ChainDeclaration | LicenceToken


def find_declarations(text: str) -> Iterator[tuple[int, Declaration]]:
    """All declarations of a text with their offsets, in order."""
    for match in DECLARATION.finditer(text):
        declaration = read_declaration(match[0])
        if declaration is not None:
            yield match.start(), declaration


def read_declaration(text: str) -> Declaration | None:
    """The declaration that ``text``, brackets included, is; None where it is none, such as ``[[日记本]]``."""
    try:
        form = Form(text[:2])
    except ValueError:
        return None
    content = text[2:-2]
    if form is Form.FRAGMENTS:
        if content.strip().casefold() == LICENCE.casefold():
            return LicenceToken(text)
        if content.startswith(CHAIN) and content[len(CHAIN) :].lstrip()[:1] in ("", ":", "："):
            call, warnings = read_chain_call(content[len(CHAIN) :])
            return ChainDeclaration(text, call, warnings)
    return _notebooks(text, form, content)


def _notebooks(text: str, form: Form, content: str) -> NotebookDeclaration | None:
    end = _NAME_END.search(content)
    if end is None and not form.full:
        # In the fragment forms the reference takes whatever follows the first 日记本 for modifiers.
        end = _ANY_NAME_END.search(content)
    if end is None:
        return None
    cold = end[0].startswith(KNOWLEDGE)
    if cold and form.full:
        return None
    name = content[: end.start()].strip()
    names = tuple(dict.fromkeys(part for part in (part.strip() for part in re.split(r"[|｜]", name)) if part))
    if not names:
        return None
    modifiers, warnings = read_modifiers(content[end.end() :])
    left_out = names[MAX_NOTEBOOKS:]
    return NotebookDeclaration(
        text,
        form,
        "|".join(names),
        names[:MAX_NOTEBOOKS],
        modifiers,
        (*warnings, *(one[:MAX_WARNING_CHARS] for one in left_out[:1])),
        cold,
    )
