"""Write postmortem/analysis/sql/layouts.json: the columns of the tables that statements with `-- needs:` make.

    python benchmarks/layouts.py

To be run when such a statement has changed (a test says so). An empty incident is analysed with every statement run, and the tables are described.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from postmortem.analysis.run import analyse
from postmortem.tables import statements
from postmortem.tables.settle import settle
from postmortem.tables.store import connect

PACKAGE = "postmortem.analysis"
FOLDER = Path(__file__).resolve().parent.parent / "postmortem" / "analysis" / "sql"


def measured() -> dict[str, tuple[str, str]]:
    """Table → (digest of its statement, its columns)."""
    with tempfile.TemporaryDirectory() as work:
        con = connect(None, Path(work), is_small=True)
        settle(con, Path(work), [], whole=False)
        statements.layouts(PACKAGE).clear()  # nothing is known, so nothing is left out
        analyse(con, "empty")
        made = {
            s.makes: s
            for file in sorted(FOLDER.glob("*.sql"))
            for s in statements.parsed(PACKAGE, file.name)
            if s.needs and s.makes
        }
        return {table: (s.digest, statements.columns_of(con, table)) for table, s in sorted(made.items())}


if __name__ == "__main__":
    text = json.dumps(measured(), indent=1)
    (FOLDER / statements.LAYOUTS).write_text(text + "\n", encoding="utf-8")
