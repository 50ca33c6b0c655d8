"""What a form needs to know of a key: its kind, its default, its range, and whether it is a secret."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args, get_origin

from annotated_types import Ge, Le
from pydantic.fields import FieldInfo

from app.config.settings import NEEDS_RESTART, names
from app.protocol.secret_texts import is_secret_name

Kind = Literal["switch", "choice", "whole", "number", "text"]

_TEXTS = re.compile(r"(?:Tar|Var|Sar).*|(?:Super)?Detector.*")


@dataclass(frozen=True, slots=True)
class SettingForm:
    """How a key is asked for. ``default`` is as it would be written; ``low`` and ``high`` are of numbers, included."""

    name: str
    kind: Kind = "text"
    default: str = ""
    low: str = ""
    high: str = ""
    choices: tuple[str, ...] = ()
    secret: bool = False
    restart: bool = False


def setting_form(name: str) -> SettingForm:
    """The form of one key; a key that is no setting of the server is a text."""
    field = names().get(name)
    if field is None:
        return SettingForm(name, secret=is_secret(name))
    low = next((str(limit.ge) for limit in field.metadata if isinstance(limit, Ge)), "")
    high = next((str(limit.le) for limit in field.metadata if isinstance(limit, Le)), "")
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    return SettingForm(
        name, _kind(field), _default(field), low, high, tuple(choices), is_secret(name), name in NEEDS_RESTART
    )


def is_secret(name: str) -> bool:
    """True for settings that hold a secret, and for other keys whose name ends like one; texts for prompts are none."""
    field = names().get(name)
    if field is not None:
        return not field.repr
    return is_secret_name(name) and not _TEXTS.fullmatch(name)


def _kind(field: FieldInfo) -> Kind:
    if get_origin(field.annotation) is Literal:
        return "choice"
    kinds: dict[object, Kind] = {bool: "switch", int: "whole", float: "number"}
    return kinds.get(field.annotation, "text")


def _default(field: FieldInfo) -> str:
    value = field.get_default()
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
