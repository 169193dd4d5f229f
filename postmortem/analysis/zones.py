"""Zones that no line tells, from moments that several clocks printed (rule B3).

A unit (what of a node keeps one zone) whose zone was guessed takes the multiple of 15 minutes by which its moments meet those of units with a
known zone. Moments of minutes' precision only count by whole hours, and only when two kinds of them agree: timeouts have round lengths
too. Of units that only meet each other the guess of most stands.
"""

from __future__ import annotations

from typing import Final

import duckdb
import polars as pl

QUARTER_US: Final = 900_000_000
HOUR_US: Final = 4 * QUARTER_US
FARTHEST_US: Final = 26 * HOUR_US
"""Two zones of the world are at most 26 hours apart."""
NEAR_US: Final = 10_000_000
"""One shared moment is enough for a zone when it fits within this."""
ENOUGH: Final = 1.0
"""Score at which votes decide: a close moment, or two kinds of loose ones."""
LOOSE_US: Final = {"fine": 120_000_000, "medium": 120_000_000, "coarse": 300_000_000}


def frame(con: duckdb.DuckDBPyConnection, sql: str) -> pl.DataFrame:
    """The rows of a query."""
    found = pl.from_arrow(con.sql(sql).to_arrow_table())
    assert isinstance(found, pl.DataFrame)
    return found


def zone_shifts(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Shift of each unit whose guessed zone is wrong: microseconds to take from its times."""
    units = frame(con, "SELECT unit, node, class, zone_s, is_pinned FROM clock_units ORDER BY unit")
    if units.filter(~pl.col("is_pinned")).is_empty():
        return {}
    moments = frame(con, "SELECT kind, key, grade, unit, us FROM moments ORDER BY ALL")
    pairs = frame(
        con,
        """
        SELECT p.host_unit AS a, p.switch_unit AS b, epoch_us(h.ts) - epoch_us(s.ts) AS us FROM link_pairs p
        JOIN events h ON h.event_id = p.host_event JOIN events s ON s.event_id = p.switch_event WHERE p.host_unit <> p.switch_unit ORDER BY ALL LIMIT 20000""",
    )
    pinned = set(units.filter(pl.col("is_pinned"))["unit"])
    pinned |= {u for u in moments["unit"].unique() if u.endswith("|dump")}
    shift: dict[str, int] = dict.fromkeys(sorted(pinned), 0)
    todo = [u for u in units["unit"] if u not in pinned]
    component: dict[str, int] = {}
    seed = 0
    while todo:
        votes = _votes(moments, pairs, units, shift)
        fresh = {u: k for u, (k, score) in votes.items() if score >= ENOUGH}
        # Little speaks for the guess and nothing against it.
        fresh = fresh or {u: k for u, (k, _) in votes.items() if k == 0}
        if not fresh:
            # Nothing known to compare with: the guess of the unit that shares most stands until its peers are heard.
            seed += 1
            first = _most_shared(moments, pairs, todo)
            if first is None:
                break
            fresh = {first: 0}
        shift |= fresh
        component |= dict.fromkeys(fresh, seed)
        todo = [u for u in todo if u not in shift]
    is_job = dict(zip(units["unit"], units["class"] == "job", strict=True))
    return _by_majority(shift, component, is_job)


def shared(moments: pl.DataFrame, column: str) -> pl.DataFrame:
    """(name, n): how often a moment of each name in `column` was also seen by another one, counted per pair; without names that share none.

    Counted, not paired: two thousand hosts that share a moment are four million pairs.
    """
    place = ["kind", "key"]
    others = pl.len().over(place) - pl.len().over([*place, column])
    sums = moments.select(column, n=others.cast(pl.Int64)).group_by(column).agg(pl.col("n").sum())
    return sums.filter(pl.col("n") > 0)


def _most_shared(moments: pl.DataFrame, pairs: pl.DataFrame, todo: list[str]) -> str | None:
    """The unit of `todo` that shares most moments with others of `todo`; None where none shares any."""
    rows = moments.filter(pl.col("unit").is_in(todo))
    counts = shared(rows, "unit").rows()
    linked = pairs.filter(pl.col("a").is_in(todo) & pl.col("b").is_in(todo))
    counts += [(u, 1) for c in ("a", "b") for u in linked[c].unique()]
    return min(counts, key=lambda r: (-r[1], r[0]))[0] if counts else None


def _votes(
    moments: pl.DataFrame, pairs: pl.DataFrame, units: pl.DataFrame, shift: dict[str, int]
) -> dict[str, tuple[int, float]]:
    """(shift, score) of each unit that shares moments with units of a known one, where most of them agree on it."""
    fixed = pl.DataFrame(
        {"unit": list(shift), "shift": list(shift.values())}, schema={"unit": pl.String, "shift": pl.Int64}
    )
    known = moments.join(fixed, on="unit").group_by("kind", "key").agg(ref=(pl.col("us") - pl.col("shift")).median())
    rows = (
        moments.join(fixed, on="unit", how="anti")
        .join(known, on=["kind", "key"])
        .select("unit", "kind", "grade", d=pl.col("us") - pl.col("ref"))
    )
    # Of a pair (a, b) of units both times are true after their shifts: shift a - shift b = time a - time b.
    link = {"kind": pl.lit("link"), "grade": pl.lit("medium")}
    ends = [
        pairs.join(fixed, left_on="b", right_on="unit")
        .join(fixed, left_on="a", right_on="unit", how="anti")
        .select(unit="a", **link, d=pl.col("shift") + pl.col("us")),
        pairs.join(fixed, left_on="a", right_on="unit")
        .join(fixed, left_on="b", right_on="unit", how="anti")
        .select(unit="b", **link, d=pl.col("shift") - pl.col("us")),
    ]
    votes = pl.concat([v.with_columns(pl.col("d").cast(pl.Float64)) for v in (rows, *ends)])
    votes = votes.with_columns(k=((pl.col("d") / QUARTER_US).round() * QUARTER_US).cast(pl.Int64)).with_columns(
        rest=(pl.col("d") - pl.col("k")).abs()
    )
    coarse = pl.col("grade") == "coarse"
    limit = pl.col("grade").replace_strict(LOOSE_US, return_dtype=pl.Int64)
    votes = votes.filter(
        (pl.col("rest") <= limit) & (pl.col("k").abs() <= FARTHEST_US) & (~coarse | (pl.col("k") % HOUR_US == 0))
    )
    # Agreement of a kind counts once, of many moments twice; a single close one is enough, of loose and coarse ones it takes two kinds.
    scored = votes.group_by("unit", "k", "kind").agg(
        score=pl.when(coarse.all())
        .then(0.5)
        .when((pl.col("rest") <= NEAR_US).any() | (pl.len() > 1))
        .then(1 + 0.25 * pl.len().clip(0, 4))
        .otherwise(0.5)
        .max()
    )
    sums = pl.concat([scored.select("unit", "k", "score"), _same_machine(units, shift)])
    sums = sums.group_by("unit", "k").agg(pl.col("score").sum())
    out: dict[str, tuple[int, float]] = {}
    for (unit,), group in sums.sort("unit", "k").group_by("unit", maintain_order=True):
        ranked = sorted(group.select("score", "k").rows(), key=lambda r: (-r[0], abs(r[1]), r[1]))
        if len(ranked) == 1 or ranked[0][0] > ranked[1][0]:
            out[str(unit)] = (int(ranked[0][1]), float(ranked[0][0]))
    return out


def _same_machine(units: pl.DataFrame, shift: dict[str, int]) -> pl.DataFrame:
    """Votes (unit, k, score) for the zone that other logs of the same machine were found to keep: half of what it takes."""
    rows = units.with_columns(k=pl.col("unit").replace_strict(shift, default=None, return_dtype=pl.Int64))
    found = rows.filter((pl.col("k") != 0) & ~pl.col("is_pinned")).select(
        "node", zone=pl.col("zone_s").cast(pl.Int64) * 1_000_000 + pl.col("k")
    )
    return (
        rows.filter(pl.col("k").is_null())
        .join(found, on="node")
        .select("unit", k=pl.col("zone") - pl.col("zone_s").cast(pl.Int64) * 1_000_000, score=pl.lit(0.5))
        .unique()
    )


def _by_majority(shift: dict[str, int], component: dict[str, int], is_job: dict[str, bool]) -> dict[str, int]:
    """Shifts where of units that are only known from each other most keep their guess; zeros are left out."""
    groups: dict[int, dict[int, int]] = {}
    for unit, number in component.items():
        if number:
            counts = groups.setdefault(number, {})
            counts[shift[unit]] = counts.get(shift[unit], 0) + (2 if is_job.get(unit) else 1)
    usual = {n: min(c, key=lambda k: (-c[k], abs(k), k)) for n, c in groups.items()}
    settled = {u: shift[u] - usual.get(n, 0) for u, n in component.items()}
    return {u: s for u, s in settled.items() if s}
