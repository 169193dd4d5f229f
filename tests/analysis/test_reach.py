"""Blast radius: which of the failures lie behind a finding, over one step and over several."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from postmortem.analysis.model import Reach
from postmortem.analysis.reach import reach

LINK, COMPLETION, ABORT_1, ABORT_2, ALONE = 1, 2, 3, 4, 5


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """A link goes down, rank 0's connection fails, ranks 1 and 2 abort for it; rank 3 fails of its own."""
    with duckdb.connect() as made:
        made.execute("""
            CREATE TABLE events (event_id BIGINT, event VARCHAR, severity VARCHAR, rank BIGINT, host VARCHAR, file VARCHAR);
            CREATE TABLE episode_rows (episode BIGINT, event_id BIGINT);
            CREATE TABLE file_rank (file VARCHAR, rank BIGINT);
            CREATE TABLE ranks (rank BIGINT, node VARCHAR);
            CREATE TABLE pod_node (pod VARCHAR, node VARCHAR);
            CREATE TABLE edges (cause_episode BIGINT, effect_episode BIGINT);
            INSERT INTO events VALUES (1, 'link.down', 'error', NULL, 'node-1', 'k.log'), (2, 'nccl.ib_completion_error', 'error', 0, 'node-1', 'a'),
              (3, 'nccl.abort', 'error', 1, 'node-2', 'b'), (4, 'nccl.abort', 'error', NULL, 'node-2', 'rank2.log'), (5, 'torch.exception', 'error', 3, 'node-3', 'd');
            INSERT INTO episode_rows SELECT event_id, event_id FROM events;
            INSERT INTO file_rank VALUES ('rank2.log', 2);
            INSERT INTO edges VALUES (1, 2), (2, 3), (2, 4)""")
        yield made


def test_what_follows_over_several_steps_is_explained(con: duckdb.DuckDBPyConnection) -> None:
    assert reach(con, [LINK], None) == Reach("rank", 3, 4)
    assert reach(con, [COMPLETION], None) == Reach("rank", 3, 4)


def test_what_comes_before_or_beside_is_not(con: duckdb.DuckDBPyConnection) -> None:
    assert reach(con, [ABORT_1], None) == Reach("rank", 1, 4)
    assert reach(con, [ALONE], "node-2") == Reach("rank", 3, 4), "and what failed on the culprit's own host"


def test_a_circle_of_edges_ends(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("INSERT INTO edges VALUES (3, 1)")
    assert reach(con, [ABORT_2, ABORT_1], None) == Reach("rank", 3, 4)


def test_one_failure_has_no_radius(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("DELETE FROM events WHERE event_id <> 5")
    assert reach(con, [ALONE], None) is None
