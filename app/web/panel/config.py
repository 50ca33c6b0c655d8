"""The page of ``config.env``: as a form, as text, and its copies; nothing is saved that nobody has looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.config.edited_file import EditConflictError
from app.config.env_edit import EnvEditError
from app.config.problem import Problem
from app.config.setting_forms import setting_form
from app.config.snapshot import until_restart
from app.errors import ConfigError
from app.extend import DeclaredRoute, PageGroup, PanelPage, SearchHit
from app.services.configuration import ConfigRefusedError, Configuration
from app.web.admin.bodies import content_of, json_object
from app.web.panel.config_form import VALUE, as_fields, changes, read_fields, sections, setting_hits, wrong
from app.web.panel.frame import URL, Panel, panel_route

PAGE = "config"
ADDRESS = f"{URL}/{PAGE}"
TABS = ("form", "text", "backups")


class ConfigPart:
    """The page, its tabs, and the steps from a changed form to a saved file."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._configuration = Configuration(panel.services, lambda: datetime.now(UTC))

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "config.env settings 设置 密钥 keys API_URL 备份 backups 变量 variables"
        return (PanelPage(PAGE, PageGroup.SYSTEM, "配置", "Configuration", 10, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The tabs, and what their forms are sent to."""
        return (
            panel_route("/config", self._show),
            panel_route("/config", self._edit, "POST"),
            panel_route("/config/review", self._review, "POST"),
            panel_route("/config/review-text", self._review_text, "POST"),
            panel_route("/config/save", self._save, "POST"),
            panel_route("/config/backups/{name}", self._backup),
            panel_route("/config/backups/{name}/restore", self._restore, "POST"),
        )

    async def find(self, words: str, limit: int) -> Sequence[SearchHit]:
        """Settings by their names and help texts."""
        layout = await self._configuration.layout()
        return [
            SearchHit(f"设置 {key}", f"Setting {key}", f"{ADDRESS}#k-{key}", "")
            for key, _ in setting_hits(layout, words, limit)
        ]

    async def _show(self, request: Request) -> Response:
        tab = request.query_params.get("tab", "form")
        if tab == "text":
            return await self._text(request)
        if tab == "backups":
            values = {"backups": await self._configuration.backups(), "file": await self._configuration.read()}
            return self._page(request, "config_backups.html", "backups", **values, **await self._state())
        return await self._form(request, [], saved="saved" in request.query_params)

    async def _text(self, request: Request) -> Response:
        file = await self._configuration.read()
        return self._page(request, "config_text.html", "text", file=file, **await self._state())

    async def _edit(self, request: Request) -> Response:
        """The form again, with what was filled in."""
        return await self._form(request, await self._panel.fields(request))

    async def _form(
        self,
        request: Request,
        fields: Sequence[tuple[str, str]],
        *,
        errors: Mapping[str, tuple[str, str]] | None = None,
        saved: bool = False,
    ) -> Response:
        file = await self._configuration.read()
        layout = await self._configuration.layout()
        overridden = await self._configuration.overridden(file.text)
        filled = read_fields(fields)
        shown = sections(layout, file.text, overridden=overridden, filled=filled, errors=errors)
        return self._page(
            request,
            "config.html",
            "form",
            status=422 if errors else 200,
            file=file,
            sections=shown,
            filled=filled,
            errors=errors or {},
            saved=saved,
            **await self._state(),
        )

    async def _review(self, request: Request) -> Response:
        return await self._reviewed(request, await self._panel.fields(request))

    async def _reviewed(
        self, request: Request, fields: Sequence[tuple[str, str]], *, conflict: bool = False, status: int = 200
    ) -> Response:
        """What the form would change, to be confirmed; or the form again, with what is wrong at each field."""
        file = await self._configuration.read()
        filled = read_fields(fields)
        wanted = changes(await self._configuration.layout(), file.text, filled)
        if wanted.errors:
            return await self._form(request, fields, errors=wanted.errors)
        try:
            after = await self._configuration.edited(file.text, wanted.values)
        except EnvEditError as error:
            return await self._form(request, fields, errors={error.key: _both(error.message)})
        judged = await self._configuration.review(file.text, after)
        errors = {
            problem.key: wrong(setting_form(problem.key), problem.reason.partition("; using the default")[0])
            for problem in judged.new_problems
            if problem.key in wanted.values
        }
        if judged.refusal:
            errors[""] = _both(judged.refusal)
        if errors:
            return await self._form(request, fields, errors=errors)
        return self._page(
            request,
            "config_review.html",
            "form",
            status=status,
            fields=as_fields(filled),
            file=file,
            lines=await self._configuration.differences(file.text, after, secrets=False),
            review=judged,
            conflict=conflict or dict(fields).get("expected", file.fingerprint) != file.fingerprint,
        )

    async def _save(self, request: Request) -> Response:
        fields = await self._panel.fields(request)
        file = await self._configuration.read()
        filled = read_fields(fields)
        wanted = changes(await self._configuration.layout(), file.text, filled)
        if wanted.errors:
            return await self._form(request, fields, errors=wanted.errors)
        try:
            after = await self._configuration.edited(file.text, wanted.values)
            await self._configuration.save(after, dict(fields).get("expected", ""))
        except EnvEditError as error:
            return await self._form(request, fields, errors={error.key: _both(error.message)})
        except ConfigRefusedError as error:
            return await self._form(request, fields, errors={"": _both(error.message)})
        except EditConflictError:
            return await self._reviewed(request, fields, conflict=True, status=409)
        return RedirectResponse(f"{ADDRESS}?saved=1", 303)

    async def _review_text(self, request: Request) -> Response:
        """What saving the text of the editor would mean, as a piece of the page."""
        after = content_of(await json_object(request))
        file = await self._configuration.read()
        judged = await self._configuration.review(file.text, after)
        return self._panel.fragment(
            request,
            "config_changes.html",
            lines=await self._configuration.differences(file.text, after, secrets=True),
            review=judged,
            problems=[_told(problem) for problem in judged.problems],
        )

    async def _backup(self, request: Request) -> Response:
        name = request.path_params["name"]
        text = await self._configuration.backup(name)
        file = await self._configuration.read()
        secrets = request.query_params.get("secrets") == "1"
        judged = await self._configuration.review(file.text, text)
        return self._page(
            request,
            "config_backup.html",
            "backups",
            name=name,
            copy=next((one for one in await self._configuration.backups() if one.name == name), None),
            file=file,
            lines=await self._configuration.differences(file.text, text, secrets=secrets),
            review=judged,
            secrets=secrets,
        )

    async def _restore(self, request: Request) -> Response:
        form = await self._panel.form(request)
        await self._configuration.restore(request.path_params["name"], form.get("expected", ""))
        return RedirectResponse(f"{ADDRESS}?saved=1", 303)

    async def _state(self) -> dict[str, Any]:
        """What waits for a restart, and what is wrong with the file as it is."""
        services = self._panel.services
        try:
            now = await self._configuration.on_disk()
        except ConfigError as error:
            return {"waiting": (), "problems": [{"line": None, "key": "", "reason": _both(error.message)}]}
        return {
            "waiting": until_restart(now, services.config)[1],
            "problems": [_told(problem) for problem in now.problems],
        }

    def _page(self, request: Request, template: str, tab: str, **values: Any) -> Response:
        return self._panel.page(request, template, PAGE, tab=tab, value_prefix=VALUE, **values)


def _told(problem: Problem) -> dict[str, Any]:
    return {
        "line": problem.line,
        "key": problem.key,
        "reason": wrong(setting_form(problem.key), problem.reason),
    }


def _both(message: str) -> tuple[str, str]:
    """The two languages of a message; one that has only one is shown to all."""
    chinese, separator, english = message.partition(" / ")
    return (chinese, english) if separator else (message, message)
