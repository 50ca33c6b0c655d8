"""``python -m tests.external.panel_matrix``: every page of the panel in every combination; 1 if one is wrong."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.external.browser import FULL, browser, crawl, told, visiting
from tests.external.panel_home import used_home
from tests.program import started


def main() -> int:
    """Visit all of them and tell what is wrong."""
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        used_home(home)
        with started("serve", "--port", "0", cwd=home) as program, browser() as opened:
            for combination in FULL:
                with visiting(opened, program.base_url.removesuffix("/v1"), combination) as visit:
                    crawl(visit, axe=True)
                print(f"{combination}: {len(visit.visited)} pages, {len(visit.problems)} problems", flush=True)
                problems += visit.problems
    if problems:
        print(told(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
