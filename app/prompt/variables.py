"""Text variables: ``{{Tar…}}``, ``{{Var…}}``, ``{{SarPrompt<N>}}`` and the same in ``<<…>>`` (3.2 C1, C2, D17)."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from app.errors import PromptLimitError, both
from app.extend import Piece, Trust
from app.prompt.files import TextFiles
from app.prompt.pieces import NOT_DATA, PromptText
from app.prompt.scope import Scope
from app.prompt.settings import PromptSettings
from app.protocol.prompt_texts import (
    DIARY_SUFFIX,
    variable_cycle,
    variable_empty,
    variable_file_missing,
    variable_file_unreadable,
)

log = logging.getLogger(__name__)

SAR = re.compile(r"\{\{(SarPrompt[0-9]+)\}\}|<<(SarPrompt[0-9]+)>>")
BRACES = re.compile(r"\{\{((?:Tar|Var)[^{}\r\n]*)\}\}")
ANGLES = re.compile(r"<<((?:Tar|Var)[^<>\r\n]*)>>")
NAME = re.compile(r"\{\{((?:Tar|Var|SarPrompt)[^{}\r\n]*)\}\}|<<((?:Tar|Var|SarPrompt)[^<>\r\n]*)>>")


class VariableFiles:
    """The text files in ``TVStxt/`` that variables name as their value. Methods block."""

    def __init__(self, files: TextFiles) -> None:
        self._files = files

    def load(self, name: str) -> tuple[str, Trust]:
        """The text of a file and its trust; a fault is a text of its own that is not expanded further (3.2)."""
        try:
            return self._files.read(name), Trust.OPERATOR
        except FileNotFoundError:
            return variable_file_missing(name), Trust.DATA
        except OSError as error:
            log.warning("variable file '%s' cannot be read: %s", name, error)
            return variable_file_unreadable(name), Trust.DATA


class Variables:
    """Replaces the variables of one configuration."""

    def __init__(self, settings: PromptSettings, files: VariableFiles) -> None:
        self._values = dict(settings.variables)
        self._in_order = tuple(self._values.items())
        self._places = {name: place for place, name in enumerate(self._values)}
        self._sar = {f"SarPrompt{rule.number}": rule for rule in settings.sar}
        self._any_order = settings.resolve_variables_in_any_order
        self._files = files

    def expand(self, text: PromptText, scope: Scope, stack: tuple[str, ...]) -> PromptText:
        """Put in every variable that the scope's role allows; ``stack`` holds the sources ``text`` is inside of."""
        if scope.rules.system and self._any_order:
            return self._expand_fully(text, scope, stack)
        if scope.rules.sar:
            text = self._expand_sar(text, scope, stack)
        if scope.rules.system:
            text = self._expand_in_order(text, scope, stack)
        return text

    def _expand_sar(self, text: PromptText, scope: Scope, stack: tuple[str, ...]) -> PromptText:
        names = dict.fromkeys(match[1] or match[2] for match in text.find(SAR, NOT_DATA))
        if not names:
            return text
        texts: dict[str, Sequence[Piece]] = {
            name: self._pieces(name, self._sar_value(name, scope.model), scope, stack) for name in names
        }
        return _put_in(text, SAR, texts, scope)

    def _expand_in_order(self, text: PromptText, scope: Scope, stack: tuple[str, ...]) -> PromptText:
        """One pass over the variables: a variable's text may refer to later ones only (H1, H2).

        Instead of looking for every variable, the names that stand in the text decide which one is next.
        """
        done = -1
        while True:
            places = [self._places[name] for name in _names(text.join()) if name in self._places]
            done = min((place for place in places if place > done), default=-1)
            if done < 0:
                return text
            name, value = self._in_order[done]
            pieces = self._pieces(name, value, scope, stack)

            def insert(name: str = name, pieces: Sequence[Piece] = pieces) -> Sequence[Piece]:
                scope.budget.spend(name, pieces)
                return pieces

            text = text.replace_literals(_forms(name), insert, NOT_DATA)

    def _expand_fully(self, text: PromptText, scope: Scope, stack: tuple[str, ...]) -> PromptText:
        """Whatever the order: what a variable names is put in first. Another pass finds names that this made whole."""
        name = ""
        for _ in range(scope.budget.depth):
            texts: dict[str, Sequence[Piece]] = {}
            for match in text.find(NAME, NOT_DATA):
                found = match[1] or match[2]
                value = self._value(found, scope.model) if match[0] in _forms(found) else None
                if value is not None and found not in texts:
                    name = found
                    texts[name] = self._pieces(name, value, scope, stack)
            if not texts:
                return text
            text = _put_in(text, NAME, texts, scope)
        raise PromptLimitError(
            both(
                f"变量 '{name}' 被其中的变量重新生成超过 {scope.budget.depth} 次",
                f"'{name}' is made anew by the variables in it, more than {scope.budget.depth} times",
            )
        )

    def _value(self, name: str, model: str) -> str | None:
        if SAR.fullmatch("{{" + name + "}}"):
            return self._sar_value(name, model)
        return self._values.get(name)

    def _sar_value(self, name: str, model: str) -> str:
        rule = self._sar.get(name)
        wanted = model.lower()
        if rule is None or all(known.strip().lower() != wanted for known in rule.models):
            return ""
        return rule.prompt

    def _pieces(self, name: str, value: str, scope: Scope, stack: tuple[str, ...]) -> tuple[Piece, ...]:
        if not value:
            return (Piece("" if SAR.fullmatch("{{" + name + "}}") else variable_empty(name), name, Trust.OPERATOR),)
        from_file = value.lower().endswith(".txt")
        if not (from_file or self._any_order):
            return (Piece(value, name, Trust.OPERATOR),)
        if name in stack:
            return (Piece(variable_cycle(name), name, Trust.DATA),)
        scope.budget.descend(name, len(stack))
        content, trust = self._files.load(value) if from_file else (value, Trust.OPERATOR)
        inserted = PromptText.of(content, f"TVStxt:{value}" if from_file else name, trust)
        return self.expand(inserted, scope, (*stack, name)).pieces


def _names(text: str) -> set[str]:
    """Variables that ``text`` may name; two patterns, since each begins with a literal and is fast for that."""
    return {*BRACES.findall(text), *ANGLES.findall(text)}


def _forms(name: str) -> tuple[str, ...]:
    """How a variable is written; ``<<X日记本>>`` belongs to recall (D17)."""
    braces = "{{" + name + "}}"
    return (braces,) if name.endswith(DIARY_SUFFIX) else (braces, f"<<{name}>>")


def _put_in(text: PromptText, pattern: re.Pattern[str], texts: dict[str, Sequence[Piece]], scope: Scope) -> PromptText:
    def resolve(match: re.Match[str]) -> Sequence[Piece] | None:
        name = match[1] or match[2]
        pieces = texts.get(name)
        if pieces is None or match[0] not in _forms(name):
            return None
        scope.budget.spend(name, pieces)
        return pieces

    return text.replace(pattern, resolve, NOT_DATA)
