"""Every word that means something to ZQL: one list for lexer, printer, completer and docs.

A reserved word is a name only in quotes, after a dot, after AS, and in the lists of SET, RENAME
and DROP. Any other keyword is a name everywhere, but needs AS to be an alias.
"""

from __future__ import annotations

RESERVED = frozenset(
    """
    ALL AND ANY AS ASC BETWEEN BY CASE CAST CREATE CROSS DEFAULT DESC DISTINCT ELSE END EXCEPT
    EXCLUDE EXISTS FALSE FOR FROM FULL GROUP HAVING IN INNER INTERSECT INTERVAL INTO IS JOIN
    LAMBDA LATERAL LEFT LIKE LIMIT NATURAL NOT NULL OFFSET ON OR ORDER OVER PARTITION QUALIFY
    RIGHT SELECT THEN TO TRUE UNION UNNEST USING WHEN WHERE WINDOW WITH
    """.split()  # noqa: SIM905 - a list of words reads as words
)

UNITS = {
    "MICROSECOND": "MICROSECOND",
    "MICROSECONDS": "MICROSECOND",
    "MILLISECOND": "MILLISECOND",
    "MILLISECONDS": "MILLISECOND",
    "SECOND": "SECOND",
    "SECONDS": "SECOND",
    "MINUTE": "MINUTE",
    "MINUTES": "MINUTE",
    "HOUR": "HOUR",
    "HOURS": "HOUR",
    "DAY": "DAY",
    "DAYS": "DAY",
    "WEEK": "WEEK",
    "WEEKS": "WEEK",
    "MONTH": "MONTH",
    "MONTHS": "MONTH",
    "QUARTER": "QUARTER",
    "QUARTERS": "QUARTER",
    "YEAR": "YEAR",
    "YEARS": "YEAR",
    "DECADE": "DECADE",
    "DECADES": "DECADE",
    "CENTURY": "CENTURY",
    "CENTURIES": "CENTURY",
    "MILLENNIUM": "MILLENNIUM",
    "MILLENNIA": "MILLENNIUM",
}
"""Units of INTERVAL as written, and the one spelling that is kept."""

OPERATORS = (
    "WHERE",
    "SELECT",
    "EXTEND",
    "SET",
    "DROP",
    "RENAME",
    "AS",
    "AGGREGATE",
    "DISTINCT",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "JOIN",
    "INNER",
    "LEFT",
    "RIGHT",
    "FULL",
    "CROSS",
    "SEMI",
    "ANTI",
    "ASOF",
    "NATURAL",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "UNNEST",
    "MAP",
    "FLATMAP",
    "WRITE",
    "EXPORT",
    "ASSERT",
    "CALL",
    "CREATE",
    "DESCRIBE",
    "DISTRIBUTE",
    "FINISH",
    "FORK",
    "IF",
    "PARTITION",
    "PIVOT",
    "RECURSIVE",
    "REDUCE",
    "SHUFFLE",
    "SWITCH",
    "TABLESAMPLE",
    "TEE",
    "UNPIVOT",
    "WITH",
)
"""First words of the pipe operators."""

STATEMENTS = (
    "FROM",
    "VALUES",
    "SELECT",
    "WITH",
    "DECLARE",
    "CREATE",
    "IMPORT",
    "SET",
    "EXPLAIN",
    "DESCRIBE",
    "SUMMARIZE",
    "SHOW",
    "ASSERT",
    "WRITE",
)
"""First words of the statements."""

EXPLAIN_LEVELS = ("SYNTAX", "LOGICAL", "TRACE", "STAGES", "ANALYZE")
EXPLAIN_FORMATS = ("TEXT", "JSON", "MERMAID")
"""What EXPLAIN can show, and how."""

NON_RESERVED = (
    frozenset(
        """
        ANALYZE AT BATCHES BERNOULLI CALLED COLLATE COMBINE CURRENT DATA DATE ELSEIF ERROR
        ESCAPE FAIL FILTER FIRST FOLLOWING FORMAT FUNCTION FUNCTIONS GLOB GROUPING GROUPS IGNORE
        ILIKE IMMUTABLE INCLUDE LANGUAGE LAST LOGICAL MODULE NAME NO NULLS OPTIONS ORDINALITY OTHERS
        OUTER PERCENT PRECEDING PRECISION PYTHON RANGE REPEATABLE REPLACE RESERVOIR RESPECT
        RETURNS ROW ROWS SEED SETS SETTINGS SHARDS SHARED SIMILAR SKIP STAGES STRUCT SYNTAX TABLE
        TABLES TEMP TEMPORARY TIES TIME TIMESTAMP TIMESTAMPTZ TRACE UNBOUNDED VIEW VOLATILE
        WITHIN ZONE
        """.split()  # noqa: SIM905 - a list of words reads as words
    )
    | frozenset(UNITS)
    | frozenset(OPERATORS + STATEMENTS)
) - RESERVED

KEYWORDS = RESERVED | NON_RESERVED


def is_keyword(word: str) -> bool:
    """Whether a word means something to the grammar; letters outside ASCII never do."""
    return word.isascii() and word.upper() in KEYWORDS


def is_reserved(word: str) -> bool:
    """Whether a word must be quoted to be a name."""
    return word.isascii() and word.upper() in RESERVED
