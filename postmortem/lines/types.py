"""DuckDB type names of the schema as polars types: the one place that both the line pass and the decoders take them from."""

from __future__ import annotations

from typing import Final

import polars as pl

POLARS_TYPES: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "VARCHAR": pl.String,
    "BIGINT": pl.Int64,
    "INTEGER": pl.Int32,
    "DOUBLE": pl.Float64,
    "BOOLEAN": pl.Boolean,
    "TIMESTAMP": pl.Datetime("us"),
}
