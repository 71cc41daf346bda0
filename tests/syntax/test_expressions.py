"""Expressions: precedence, forms and literals, seen through their canonical text and their AST."""

from __future__ import annotations

from decimal import Decimal

import pytest
from zql.errors import ParseError
from zql.expr import expression as ex
from zql.source import Source
from zql.syntax.parser import parse_expression
from zql.syntax.printer import expression_name, expression_text


def parse(text):
    return parse_expression(Source("e", text))


def explicit(node):
    """The expression with parentheses around every operator, from its AST alone."""
    match node:
        case ex.Binary(op, left, right):
            return f"({explicit(left)} {op} {explicit(right)})"
        case ex.Unary(op, operand):
            return f"({op} {explicit(operand)})"
        case ex.Logical(op, operands):
            return f"({f' {op} '.join(map(explicit, operands))})"
        case ex.Is(operand, test, negated, other):
            tail = f" FROM {explicit(other)}" if other else ""
            return f"({explicit(operand)} IS {'NOT ' * negated}{test}{tail})"
        case ex.Like(op, operand, pattern, negated):
            return f"({explicit(operand)} {'NOT ' * negated}{op} {explicit(pattern)})"
        case ex.Between(operand, low, high, negated):
            word = "NOT BETWEEN" if negated else "BETWEEN"
            return f"({explicit(operand)} {word} {explicit(low)} AND {explicit(high)})"
        case ex.In(operand, items, negated):
            word = "NOT IN" if negated else "IN"
            return f"({explicit(operand)} {word} [{', '.join(map(explicit, items))}])"
        case ex.Cast(operand, type_):
            return f"({explicit(operand)} :: {type_})"
        case ex.Collate(operand, name):
            return f"({explicit(operand)} COLLATE {name})"
        case ex.AtTimeZone(operand, zone):
            return f"({explicit(operand)} AT {explicit(zone)})"
        case ex.Index(operand, index):
            return f"({explicit(operand)} AT {explicit(index)})"
    return expression_text(node)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a.b::INTEGER", "(a.b :: INTEGER)"),
        ("-5::VARCHAR", "(- (5 :: VARCHAR))"),
        ("-a[1]", "(- (a AT 1))"),
        ("-x ** 2", "((- x) ** 2)"),
        ("~x ^ 2", "((~ x) ^ 2)"),
        ("+ + 61", "(+ (+ 61))"),
        ("2 ** 3 ** 2", "((2 ** 3) ** 2)"),
        ("2 ** -1", "(2 ** (- 1))"),
        ("a * b ** c", "(a * (b ** c))"),
        ("a - b - c", "((a - b) - c)"),
        ("a - (b + c)", "(a - (b + c))"),
        ("a / (b * 0.7)", "(a / (b * 0.7))"),
        ("a / b * c // d % e", "((((a / b) * c) // d) % e)"),
        ("a + b * c", "(a + (b * c))"),
        ("'a' || 1 + 2", "('a' || (1 + 2))"),
        ("8 | 6 & 3", "((8 | 6) & 3)"),
        ("a | b >> c << d & e", "((((a | b) >> c) << d) & e)"),
        ("j -> 'a' ->> 'b' = 'x'", "(((j -> 'a') ->> 'b') = 'x')"),
        ("a || b LIKE c || d", "((a || b) LIKE (c || d))"),
        ("a LIKE b = c", "((a LIKE b) = c)"),
        ("a IN (1, 2) = TRUE", "((a IN [1, 2]) = TRUE)"),
        ("a BETWEEN 1 AND 2 AND b", "((a BETWEEN 1 AND 2) AND b)"),
        ("a NOT BETWEEN 1 + 1 AND 2 || 3", "(a NOT BETWEEN (1 + 1) AND (2 || 3))"),
        ("a = b IS NULL", "((a = b) IS NULL)"),
        ("null = 1 IS NULL", "((NULL = 1) IS NULL)"),
        ("(a = b) = c", "((a = b) = c)"),
        ("a = (b = c)", "(a = (b = c))"),
        ("x IS NULL IS NOT TRUE", "((x IS NULL) IS NOT TRUE)"),
        ("a IS DISTINCT FROM b = c", "(a IS DISTINCT FROM (b = c))"),
        ("NOT x IS NULL", "(NOT (x IS NULL))"),
        ("NOT NOT a = b", "(NOT (NOT (a = b)))"),
        ("NOT a AND b", "((NOT a) AND b)"),
        ("a AND b OR c AND d", "((a AND b) OR (c AND d))"),
        ("a OR b OR c", "(a OR b OR c)"),
        ("a OR (b OR c)", "(a OR (b OR c))"),
        ("a COLLATE nocase = b", "((a COLLATE nocase) = b)"),
        ("a + b AT TIME ZONE 'UTC'", "(a + (b AT 'UTC'))"),
        ("-a COLLATE x", "(- (a COLLATE x))"),
        ("a ~ 'x' AND b", "((a ~ 'x') AND b)"),
        ("a NOT SIMILAR TO b", "(a NOT SIMILAR TO b)"),
        ("a == b", "(a = b)"),
        ("a != b", "(a <> b)"),
        ("a|b", "(a | b)"),
        ("a||b", "(a || b)"),
        ("a->>b", "(a ->> b)"),
        ("a - -b", "(a - (- b))"),
        ("1--2\n+3", "(1 + 3)"),
        ("a | select_ | map", "((a | select_) | map)"),
    ],
)
def test_precedence(text, meaning):
    assert explicit(parse(text)) == meaning


@pytest.mark.parametrize(
    "text",
    [
        "a < b < c",
        "a = b = c",
        "a LIKE b LIKE c",
        "a IN (1) IN (2)",
        "a BETWEEN 1 AND 2 BETWEEN 3 AND 4",
        "x IS NULL = y",
    ],
)
def test_these_do_not_chain(text):
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert caught.value.code == "S116"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("123", 123),
        ("1_000", 1000),
        ("1.5", Decimal("1.5")),
        ("1.", Decimal(1)),
        (".5", Decimal("0.5")),
        ("1e3", Decimal(1000)),
        ("1.5E-3", Decimal("0.0015")),
        ("1_0.2_5", Decimal("10.25")),
        ("'it''s'", "it's"),
        (r"'a\nb'", r"a\nb"),
        ("''", ""),
        (r"E'a\nb\t\\\'\x41\u00e9\101''\q'", "a\nb\t\\'A\u00e9A'q"),
        (r"e''", ""),
        ("$$it's$$", "it's"),
        ("$$ $1 $x$ $$", " $1 $x$ "),
        ("$t$a $$ b$t$", "a $$ b"),
        ("'a\nb'", "a\nb"),
        ("TRUE", True),
        ("false", False),
        ("NULL", None),
    ],
)
def test_literals(text, value):
    literal = parse(text)
    assert isinstance(literal, ex.Literal)
    assert literal.value == value
    assert type(literal.value) is type(value)
    assert literal.type == ""


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("DATE '2024-01-31'", "DATE"),
        ("time '12:00'", "TIME"),
        ("TIMESTAMP '2024-01-31 12:00'", "TIMESTAMP"),
        ("TIMESTAMPTZ '2024-01-31 12:00+01'", "TIMESTAMP WITH TIME ZONE"),
        ("TIMESTAMP WITH TIME ZONE '2024-01-31 12:00+01'", "TIMESTAMP WITH TIME ZONE"),
    ],
)
def test_typed_literals(text, type_):
    assert parse(text).type == type_
    assert parse(expression_text(parse(text))) == parse(text)


@pytest.mark.parametrize("text", ["9" * 1001, "1e" + "9" * 400, "1" * 5000])
def test_absurd_numbers(text):
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert caught.value.code == "S106"


CANONICAL = """
a.b.c
"order".select."a b"."".x
`a b`."x""y"   ==>   "a b"."x""y"
COUNT(*)   ==>   count(*)
q.Score(x)
left(a, 2)
"try"(a)
"columns"('a')
f(x, k => 1, order => 2)
f(DISTINCT a ORDER BY b DESC NULLS LAST, c)
first(x ORDER BY y IGNORE NULLS)
last(x RESPECT NULLS) OVER (ORDER BY a)
sum(x) FILTER (WHERE y > 0) OVER (PARTITION BY a, b ORDER BY c)
quantile_cont(0.5) WITHIN GROUP (ORDER BY x DESC)
sum(x) OVER w
sum(x) OVER (w ORDER BY a)
sum(x) OVER ()
sum(x) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
sum(x) OVER (ORDER BY a RANGE BETWEEN INTERVAL '1 day' PRECEDING AND INTERVAL 2 HOUR FOLLOWING)
sum(x) OVER (GROUPS 2 PRECEDING EXCLUDE CURRENT ROW)
sum(x) OVER (ROWS 1 PRECEDING EXCLUDE NO OTHERS)
sum(x) OVER (ROWS 1 PRECEDING EXCLUDE TIES)
sum(x) OVER (ROWS 1 PRECEDING EXCLUDE GROUP)
CASE WHEN a THEN b ELSE c END
CASE x WHEN 1 THEN 'a' WHEN 2 THEN 'b' END
CAST(a AS INTEGER)
a::int   ==>   CAST(a AS INTEGER)
TRY_CAST(a AS DECIMAL(10,2))
try(1 / 0)   ==>   TRY(1 / 0)
EXTRACT(year FROM x)
extract('YEAR' from x)   ==>   EXTRACT(year FROM x)
INTERVAL '30 minutes'
interval 1 days   ==>   INTERVAL 1 DAY
INTERVAL (n + 1) MONTH
INTERVAL $n WEEK
INTERVAL '1' YEAR
[1, 2, 3]
[1, 2,]   ==>   [1, 2]
{a: 1, "b c": 2, select: 3}
{'a': 1, 'it''s': 2,}   ==>   {a: 1, "it's": 2}
MAP {'k': 1, 2: 3}
(1, 2)
[x * 2 FOR x IN l IF x > 1]
f(l, LAMBDA x, y: x + y)
f(lambda x: x)   ==>   f(LAMBDA x: x)
(FROM t |> LIMIT 1)
EXISTS (FROM t)
a IN (FROM t)
a NOT IN (VALUES (1), (2))
NOT EXISTS (FROM t |> WHERE a = 1)
(a).b
(a).b.c(1)
(f(x)).y   ==>   f(x).y
f(x).y(1).z
a.b(1)
'abc'.upper()
(1).f
l[1][-1]
l[1:2]   ==>   l[1 : 2]
l[:]   ==>   l[:]
l[a:]   ==>   l[a :]
l[: : 2]
x IS NOT DISTINCT FROM y
x IS NOT TRUE
a LIKE 'x!%' ESCAPE '!'
a NOT ILIKE b
a GLOB '*.x'
$p + 1
- -x
-(-x)   ==>   - -x
-x
NOT a
date + time - timestamp
interval.x   ==>   error
value + name + type + text + filter + format
""".strip().splitlines()


@pytest.mark.parametrize("line", CANONICAL)
def test_canonical_text(line):
    text, _, wanted = line.partition("   ==>   ")
    wanted = wanted or text
    if wanted == "error":
        with pytest.raises(ParseError):
            parse(text)
        return
    assert expression_text(parse(text)) == wanted
    assert expression_text(parse(wanted)) == wanted


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a", "a"),
        ("t.a.B", "B"),
        ("(a).b", "b"),
        ("LOWER( x )", "lower(x)"),
        ("Score(x)", "Score(x)"),
        ("a+1", "a + 1"),
    ],
)
def test_names_of_columns(text, name):
    assert expression_name(parse(text)) == name


def test_a_path_stays_apart_from_the_field_of_a_column():
    assert parse("a.b") == ex.Name(("a", "b"))
    assert parse("(a).b") == ex.FieldAccess(ex.Name(("a",)), "b")


def test_dotted_calls_and_methods():
    assert parse("q.f(x)") == ex.Call(("q", "f"), (ex.Name(("x",)),))
    assert parse("f(x).g(1)") == ex.Method(
        ex.Call(("f",), (ex.Name(("x",)),)), "g", (ex.Literal(1),)
    )


def test_whether_names_were_quoted():
    assert parse('a."b".c').quoted == (False, True, False)


@pytest.mark.parametrize(
    "text", ["t|>x", "f(*) + * 2", "a b", "x 'y'", "'a' 'b'", "1a", "0x1F", "1__0", "1_"]
)
def test_refused(text):
    with pytest.raises(ParseError):
        parse(text)
