"""A plugin's settings as a form: the keys of its manifest, what is set, and the text that a filled-in form makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.config import dotenv
from app.config.env_edit import edited, is_key
from app.config.env_layout import Layout
from app.plugins.manifest import Manifest
from app.protocol.secret_texts import is_secret_name

MAX_FIELDS = 300
"""Keys of one form; further ones are edited as text."""


@dataclass(frozen=True, slots=True)
class SettingField:
    """One key. ``value`` is what the plugin's own file says (None: nothing), ``default`` what holds else.

    ``inherited``: the server's own settings have a value for it, which is not told here.
    """

    key: str
    kind: str
    description: str
    value: str | None
    default: str
    inherited: bool
    secret: bool


def setting_fields(manifest: Manifest, text: str, environ: Mapping[str, str]) -> tuple[SettingField, ...]:
    """The keys of ``configSchema`` that a file can hold, in its order; ``text`` is the plugin's own file."""
    own = dotenv.parse_values(text)
    named = [(key, setting) for key, setting in manifest.settings.items() if is_key(key)]
    return tuple(
        SettingField(
            key,
            setting.type,
            setting.description,
            own.get(key),
            setting.default or "",
            bool(environ.get(key, "").strip()),
            is_secret_name(key),
        )
        for key, setting in named[:MAX_FIELDS]
    )


def filled_in(fields: tuple[SettingField, ...], text: str, form: Mapping[str, str]) -> str:
    """The file with what a person has filled in; an empty field takes its key away. Raises EnvEditError.

    Fields that are missing in the form stay as they are.
    """
    changes: dict[str, str | None] = {}
    for field in fields:
        given = form.get(field.key)
        if given is None:
            continue
        given = given.replace("\r\n", "\n")
        if given != (field.value or ""):
            changes[field.key] = given or None
    return edited(text, changes, Layout()) if changes else text
