"""The settings and the environment of a plugin's process (spec 5.4).

Compatibility default: a child sees the server's whole environment, secrets of ``config.env`` included, because existing
plugins read ``Key``, ``API_Key`` or ``VarHttpUrl`` from it. A manifest can ask for less (B9) with our own field:

* ``"inheritEnv": true`` or absent: everything;
* ``"inheritEnv": ["File_Key", "PORT"]``: a safe base (paths, language, proxies) and the variables named;
* ``"inheritEnv": false``: the safe base alone.

The plugin's resolved settings and the variables that the server itself sets come on top in every case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.config.child_environment import is_possible, is_safe
from app.plugins.manifest import Manifest, Setting
from app.protocol.call_depth import CALL_DEPTH_VARIABLE

AUTH_CODE = "DECRYPTED_AUTH_CODE"
REQUEST_IP = "VCP_REQUEST_IP"
CALLBACK_BASE_URL = "CALLBACK_BASE_URL"
CALLBACK_PLUGIN = "PLUGIN_NAME_FOR_CALLBACK"

_WHOLE_NUMBER = re.compile(r"\s*([+-]?)0*([0-9]+)")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the server tells its plugins: its root folder, port, picture key."""

    project_base: Path
    port: str | None = None
    image_key: str | None = None


def resolve_settings(manifest: Manifest, own: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The plugin's settings as text: each key of ``configSchema`` from its own file, else the server's environment.

    String form: ``integer`` is read as decimal digits and left out when there are none, ``boolean`` is true only for
    ``true`` in any case, other types are the raw text. Object form: the same, and a blank value counts as not set, and
    the default stands in for what is missing or no number (P66). ``DebugMode`` is always present.
    """
    settings: dict[str, str] = {}
    for key, setting in manifest.settings.items():
        value = _object_value(key, setting, own, environ) if setting.object_form else _plain(key, setting, own, environ)
        if value is not None:
            settings[key] = value
    settings["DebugMode"] = _boolean(own.get("DebugMode", environ.get("DebugMode", "")))
    return settings


def _plain(key: str, setting: Setting, own: Mapping[str, str], environ: Mapping[str, str]) -> str | None:
    raw = own.get(key, environ.get(key))
    return None if raw is None else _coerce(raw, setting.type)


def _object_value(key: str, setting: Setting, own: Mapping[str, str], environ: Mapping[str, str]) -> str | None:
    for raw in (own.get(key), environ.get(key), setting.default):
        if raw is not None and raw.strip():
            value = _coerce(raw, setting.type)
            if value is not None:
                return value
    return None


def _coerce(raw: str, kind: str) -> str | None:
    if kind == "integer":
        match = _WHOLE_NUMBER.match(raw)
        if match is None:
            return None
        sign = "-" if match[1] == "-" and match[2] != "0" else ""
        return sign + match[2]
    if kind == "boolean":
        return _boolean(raw)
    return raw


def _boolean(raw: str) -> str:
    return "true" if raw.strip().lower() == "true" else "false"


def child_environment(
    manifest: Manifest,
    own: Mapping[str, str],
    environ: Mapping[str, str],
    facts: ServerFacts,
    *,
    client_ip: str | None = None,
    auth_code: str | None = None,
    callback_base: str | None = None,
    depth: int = 0,
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment of one child that answers a call, and the names left out because no process could take them.

    ``callback_base`` is where a background plugin calls back: it appends ``/<plugin>/<task id>`` itself.

    ``auth_code`` is handed over only to plugins with ``requiresAdmin``; whoever starts such a plugin refuses to do so
    without a code (B11). Nothing of that name, nor a stale client address, is ever inherited. ``depth`` is that of the
    call; the child is told the one of requests that it makes.
    """
    environment = _inherited(manifest, environ)
    environment.pop(AUTH_CODE, None)
    environment.pop(REQUEST_IP, None)
    environment.update(resolve_settings(manifest, own, environ))
    environment["PROJECT_BASE_PATH"] = str(facts.project_base)
    if facts.port is not None:
        environment["SERVER_PORT"] = facts.port
    if facts.image_key:
        environment["IMAGESERVER_IMAGE_KEY"] = facts.image_key
    if client_ip:
        environment[REQUEST_IP] = client_ip
    environment["PYTHONIOENCODING"] = "utf-8"
    environment[CALL_DEPTH_VARIABLE] = str(depth + 1)
    if manifest.requires_admin and auth_code:
        environment[AUTH_CODE] = auth_code
    if callback_base is not None:
        environment[CALLBACK_BASE_URL] = callback_base
        environment[CALLBACK_PLUGIN] = manifest.name
    impossible = tuple(name for name, value in environment.items() if not is_possible(name, value))
    for name in impossible:
        del environment[name]
    return environment, impossible


def _inherited(manifest: Manifest, environ: Mapping[str, str]) -> dict[str, str]:
    wanted = manifest.inherit_env
    if wanted is True:
        return dict(environ)
    named = wanted or frozenset()
    return {name: value for name, value in environ.items() if name in named or is_safe(name)}
