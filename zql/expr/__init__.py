"""Expressions: one family of frozen nodes, and their text as DuckDB SQL."""
