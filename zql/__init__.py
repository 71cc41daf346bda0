"""ZQL: a declarative, SQL-like dataflow language over files, DuckDB and Python functions."""

__version__ = "0.1.0"
