"""Types and values of JSON Lines: nothing lost, rounded or reinterpreted."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zql.errors import StorageError, UsageError
from zql.storage import contract, inference, jsonl_checked, schema_cache
from zql.storage.dataset import open_dataset

from conftest import opened, read, table, types, write


def put(path, *lines, end="\n"):
    path.write_bytes(end.join([*lines, ""]).encode())
    return path


COLUMNS = {
    "BIGINT": ["1", "-9223372036854775808", "9223372036854775807", "null"],
    "UBIGINT": ["0", "18446744073709551615"],
    "HUGEINT": ["-1", "18446744073709551615"],
    "DOUBLE": ["1.5", "1", "9007199254740992", "1e300", "NaN", "-Infinity"],
    "DECIMAL(18,1)": ["9007199254740993", "13911860366432393", "1.5"],
    "BOOLEAN": ["true", "false", "null"],
    "VARCHAR": ['"a"', '"1"', "null"],
    "BIGINT[]": ["[]", "[1, null]", "null"],
    "VARCHAR[]": ["[]", '["x"]', "[null]"],
    "DOUBLE[]": ["[1]", "[0.5]"],
    "STRUCT(a BIGINT)": ['{"a": 1}', "{}", "null"],
    "STRUCT(a BIGINT, b VARCHAR[])": ['{"a": 1}', '{"b": ["x"]}'],
    "STRUCT(a BIGINT)[]": ['[{"a": 1}, null]', "[]"],
    "JSON": ["1", '{"a": 1}'],
    "STRUCT(a HUGEINT)": ['{"a": -1}', '{"a": 18446744073709551615}'],
    "STRUCT(a VARCHAR)": ['{"a": 1}', '{"a": "x"}'],
    "STRUCT(a JSON)": ['{"a": 1}', '{"a": [1]}'],
}
MORE = {
    # In one file: the digits of floats inside of others are not kept for each file.
    "STRUCT(a DECIMAL(17,1))": [['{"a": 9007199254740993}', '{"a": 0.5}']],
    "JSON": [["[1]", '"x"'], ["{}"], ['{"a": 1, "A": 2}'], ['{"": 1}'], ["[1]", '{"a": 1}']],
    "VARCHAR": [
        ["null"],
        ["1", '"x"', "true"],
        ["true", "1.5"],
        ["123456789012345678901234567890123456789012"],
        ["9007199254740993", "1e-40"],
        ["9007199254740993", "NaN"],
        ["99999999999999999999999999999999999999", "0.5"],
    ],
}


@pytest.mark.parametrize("type_", COLUMNS)
def test_types_from_every_row(engine, tmp_path, type_):
    values = COLUMNS[type_]
    for order in (values, values[::-1]):
        path = put(tmp_path / "a.jsonl", *[f'{{"v": {v}}}' for v in order])
        schema_cache.forget()
        dataset = opened(engine, path)
        assert types(dataset) == {"v": type_}
        assert len(read(engine, dataset)) == len(values)


@pytest.mark.parametrize(("type_", "values"), [(t, v) for t, vs in MORE.items() for v in vs])
def test_more_types(engine, tmp_path, type_, values):
    path = put(tmp_path / "a.jsonl", *[f'{{"v": {v}}}' for v in values])
    assert types(opened(engine, path)) == {"v": type_}


@pytest.mark.parametrize(("type_", "values"), list(COLUMNS.items()))
def test_types_do_not_depend_on_how_rows_lie_in_files(engine, tmp_path, type_, values):
    for number, value in enumerate(values):
        put(tmp_path / f"{number}.jsonl", f'{{"v": {value}}}')
    dataset = opened(engine, tmp_path / "*.jsonl")
    assert types(dataset)["v"] == type_
    whole = put(tmp_path / "all.jsonl", *[f'{{"v": {v}}}' for v in values])
    assert str(read(engine, dataset)) == str(table(engine, whole))


def test_values_keep_their_text(engine, tmp_path):
    path = put(tmp_path / "a.jsonl", '{"v": 1}', '{"v": "x"}', '{"v": "1.50"}', '{"v": true}')
    assert table(engine, path) == [("1",), ("x",), ("1.50",), ("true",)]


def test_big_numbers_are_exact(engine, tmp_path):
    path = put(tmp_path / "a.jsonl", *[f'{{"v": {v}}}' for v in COLUMNS["DECIMAL(18,1)"]])
    got = [v for (v,) in table(engine, path)]
    assert got == [Decimal(9007199254740993), Decimal(13911860366432393), Decimal("1.5")]
    path = put(tmp_path / "b.jsonl", '{"v": 123456789012345678901234567890123456789012}')
    assert table(engine, path) == [("123456789012345678901234567890123456789012",)]


def test_nan_and_infinity(engine, tmp_path):
    path = put(tmp_path / "a.jsonl", '{"v":NaN}', '{"v":Infinity}', '{"v":-Infinity}', '{"v":1.5}')
    a, b, c, d = (v for (v,) in table(engine, path))
    assert math.isnan(a)
    assert (b, c, d) == (math.inf, -math.inf, 1.5)


def test_keys_are_exact(engine, tmp_path):
    path = put(
        tmp_path / "a.jsonl",
        '{"id":1,"Id":"x","a.b":2,"a b":3,"":4,"it\'s":5,"\\"q":6,"a/b~c":7,"\\n":8,"k\\u0000":9}',
    )
    dataset = opened(engine, path)
    assert dataset.schema.names == (
        "id", "Id", "a.b", "a b", "", "it's", '"q', "a/b~c", "\n", "k\0"
    )  # fmt: skip
    assert read(engine, dataset) == [(1, "x", 2, 3, 4, 5, 6, 7, 8, 9)]
    for name, value in zip(dataset.schema.names, read(engine, dataset)[0], strict=True):
        assert read(engine, dataset, (name,)) == [(value,)]


def test_keys_that_duckdb_has_for_itself(engine, tmp_path):
    for name in "ab":
        put(tmp_path / f"{name}.jsonl", '{"file_index":"own","filename":5,"file_row_number":true}')
    dataset = opened(engine, tmp_path / "*.jsonl")
    assert read(engine, dataset) == [("own", 5, True)] * 2
    columns = [dataset.read_column("file_index", "a")]
    columns += [type(columns[0])("f", "", "VARCHAR", "filename")]
    sql = dataset.format.scan_sql(dataset.files, columns, dataset.options, engine)
    assert engine.rows(f"SELECT * FROM {sql}") == [("own", f.path) for f in dataset.files]


@pytest.mark.parametrize("depth", [30, 300, 3000, 30_000])
@pytest.mark.parametrize("pair", [("[", "]"), ('{"a":', "}")])
def test_what_is_nested_deeply_is_json(engine, tmp_path, depth, pair):
    value = pair[0] * depth + "1" + pair[1] * depth
    dataset = opened(engine, put(tmp_path / "a.jsonl", f'{{"v":{value}}}', '{"v":null}'))
    assert ("JSON" in types(dataset)["v"]) == (depth > 40)
    [(found,), (none,)] = read(engine, dataset)
    assert none is None
    assert depth < 40 or "1" in str(found)


def test_many_keys_in_an_object_make_a_map(engine, tmp_path):
    lines = [json.dumps({"v": {f"k{i}": i, f"j{i}": None}}) for i in range(300)]
    dataset = opened(engine, put(tmp_path / "a.jsonl", *lines))
    assert types(dataset) == {"v": "MAP(VARCHAR, BIGINT)"}
    assert read(engine, dataset)[7] == ({"k7": 7, "j7": None},)


def test_line_ends_blank_lines_and_bom(engine, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a":1}\r\n\r\n   \n\t\r\n{"a":2}\n\n{"a":"\xe2\x80\xa8"}')
    dataset = opened(engine, path)
    assert read(engine, dataset, ("a", "file_row_number")) == [("1", 0), ("2", 1), ("\u2028", 2)]
    splits = dataset.format.splits(dataset.files, {}, 1, engine)
    rows = [r for s in splits for r in read(engine, dataset, ("a", "file_row_number"), s)]
    assert rows == [("1", 0), ("2", 1), ("\u2028", 2)]
    assert len(splits) > 3


def test_a_key_of_the_last_row_is_a_column(engine, tmp_path):
    path = put(tmp_path / "a.jsonl", *['{"a":1}'] * 30_000, '{"a":1,"b":"x"}')
    assert types(opened(engine, path)) == {"a": "BIGINT", "b": "VARCHAR"}


def test_long_lines_are_read(engine, tmp_path):
    lines = '{"a":1}', json.dumps({"a": 2, "t": "x" * (40 << 20)})
    dataset = opened(engine, put(tmp_path / "a.jsonl", *lines))
    assert [(a, len(t or "")) for a, t in read(engine, dataset)] == [(1, 0), (2, 40 << 20)]
    # Another file: of one that lay there for two seconds when it was looked at, all is known.
    path = put(tmp_path / "b.jsonl", *lines)
    with pytest.raises(StorageError, match=r"b\.jsonl, line 2: a line of .* bytes.*\n.*max_line"):
        opened(engine, path, reader="read_json", max_line_bytes=1 << 20)


BAD = {
    "cut": (['{"a":1}', '{"a":2}'], b'{"a":3,"b":"unf', 3, "cut off"),
    "utf8": (['{"a":1}'], b'{"a":"caf\xe9 x"}\n', 2, "UTF-8"),
    "pretty": ([], b'{\n  "a": 1\n}\n', 1, "on its own"),
    "list": (['{"a":1}'], b"[1]\n", 2, "a list"),
    "number": (['{"a":1}'], b"5\n", 2, "no JSON object"),
    "comma": (['{"a":1}'], b'{"a":2},\n', 2, "column"),
    "two": (['{"a":1}'], b'{"a":2}{"a":3}\n', 2, "column"),
    "twice": (['{"a":1}'], b'{"a":2,"a":3}\n', 2, 'key "a" twice'),
    "surrogate": (['{"a":"x"}'], b'{"a":"\\ud800"}\n', 2, "surrogate"),
    "word": (["", '{"a":1}'], b"nonsense\n", 3, "no JSON"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_name_file_and_line(engine, tmp_path, case):
    before, rest, line, words = BAD[case]
    path = tmp_path / "bad.jsonl"
    path.write_bytes("".join(b + "\n" for b in before).encode() + rest)
    put(tmp_path / "good.jsonl", '{"a":1}')
    with pytest.raises(StorageError, match=rf"bad\.jsonl, line {line}: .*{words}") as caught:
        table(engine, tmp_path / "*.jsonl")
    assert caught.value.code == "R723"


def test_a_key_twice_inside_of_an_object(engine, tmp_path):
    path = put(tmp_path / "bad.jsonl", '{"a":{"b":1}}', '{"a":{"b":2,"b":3}}')
    with pytest.raises(Exception, match='duplicate key "b"') as caught:
        table(engine, path)
    dataset = opened(engine, path)
    explained = dataset.format.explain_failure(dataset.files, dataset.options, str(caught.value))
    assert 'bad.jsonl, line 2: the key "b" twice in one object' in str(explained)


def test_errors_far_into_a_file(engine, tmp_path):
    path = put(tmp_path / "a.jsonl", *['{"a":1}'] * 50_000, '{"a":', *['{"a":1}'] * 50_000)
    with pytest.raises(StorageError, match=r"line 50001:"):
        table(engine, path)


def test_bad_lines_may_be_left_out(engine, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a":1}\n{"a":\n[1]\nnull\n\xff\n{"a":2}\n')
    dataset = opened(engine, path, reader="read_json", on_bad_line="skip")
    assert read(engine, dataset) == [(1,), (2,)]
    assert dataset.format.skipped(dataset.files, dataset.options, engine) == [(str(path), 4)]
    with pytest.raises(UsageError, match="fail or skip"):
        opened(engine, path, reader="read_json", on_bad_line="drop")


def declared(engine, path, **columns):
    return table(engine, path, reader="read_json", columns=columns, on_new_column="ignore")


def test_declared_columns_convert_exactly(engine, tmp_path):
    path = put(tmp_path / "a.jsonl", '{"a":"12","b":3,"c":1.0,"d":"2024-01-02","e":{"x":1}}')
    assert declared(engine, path, a="BIGINT", b="varchar", c="INT", e="JSON", z="DOUBLE") == [
        (12, "3", 1, '{"x":1}', None)
    ]
    assert str(declared(engine, path, d="DATE")) == "[(datetime.date(2024, 1, 2),)]"


BREACHES = [
    ("BIGINT", "2.7"), ("BIGINT", '"x"'), ("BIGINT", "true"), ("TINYINT", "300"),
    ("BIGINT", '{"a":1}'), ("DATE", "5"), ("DATE", '"31.12.2024"'), ("BOOLEAN", "1"),
    ("DOUBLE", '"x"'), ("DECIMAL(5,1)", "1.25"), ("DOUBLE", "true"), ("TIMESTAMP", '"soon"'),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value"), BREACHES)
def test_declared_types_are_a_contract(engine, tmp_path, type_, value):
    path = put(tmp_path / "a.jsonl", '{"v":null}', f'{{"v":{value}}}')
    dataset = opened(engine, path, reader="read_json", columns={"v": type_})
    with pytest.raises(Exception, match=contract.MARK) as caught:
        read(engine, dataset)
    explained = dataset.format.explain_failure(dataset.files, dataset.options, str(caught.value))
    shown = re.escape(json.dumps(json.loads(value), separators=(",", ":")))
    pattern = rf'a\.jsonl, line 2: column "v" holds {shown}, which is no {re.escape(type_)}'
    assert re.search(pattern, str(explained))


def test_unknown_types_and_options(engine, tmp_path):
    path = put(tmp_path / "a.jsonl", '{"a":1}')
    with pytest.raises(UsageError, match='"FOO" is no type, for column "b"'):
        opened(engine, path, reader="read_json", columns={"a": "INT", "b": "FOO"})
    with pytest.raises(UsageError, match="is no type"):
        opened(engine, path, reader="read_json", columns={"a": "INT); DROP TABLE x"})
    with pytest.raises(UsageError, match='did you mean "compression"'):
        opened(engine, path, compresion="gzip")
    with pytest.raises(UsageError, match="must be TRUE or FALSE"):
        opened(engine, path, hive_partitioning="yes")
    with pytest.raises(UsageError, match='the type of "a" must be a text'):
        opened(engine, path, columns={"a": 5})
    with pytest.raises(UsageError, match="given twice"):
        opened(engine, path, max_line_bytes=5, maximum_object_size=6)


def test_new_columns_break_the_contract(engine, tmp_path):
    path = put(tmp_path / "a.jsonl", '{"a":1}', '{"a":2,"zz":3}')
    with pytest.raises(StorageError, match=r'a\.jsonl has the key "zz"') as caught:
        opened(engine, path, reader="read_json", columns={"a": "BIGINT"})
    assert "on_new_column => 'ignore'" in str(caught.value)
    assert declared(engine, path, a="BIGINT") == [(1,), (2,)]
    kept = table(engine, path, reader="read_json", columns={"a": "BIGINT"}, rest="others")
    assert kept == [(1, None), (2, '{"zz":3}')]


def test_a_sample_when_it_is_asked_for(engine, tmp_path):
    path = put(tmp_path / "a.jsonl", *['{"a":1}'] * 10, '{"a":2,"b":3}')
    with pytest.raises(StorageError, match='has the key "b"'):
        opened(engine, path, reader="read_json", sample_size=5)
    put(tmp_path / "b.jsonl", '{"c":1.5}', *['{"a":1}'] * 10)
    dataset = opened(
        engine, tmp_path / "*.jsonl", reader="read_json", sample_size=5, on_new_column="ignore"
    )
    assert types(dataset) == {"a": "BIGINT", "c": "DOUBLE"}
    dataset = opened(engine, path, reader="read_json", sample_size=5, on_new_column="ignore")
    assert types(dataset) == {"a": "BIGINT"}
    assert len(read(engine, dataset)) == 11


# ---- provisional schemas -------------------------------------------------------------------------


def provisional(engine, path, *columns):
    return open_dataset([str(path)], {}, engine, columns=columns, provisional=True)


def test_a_sample_is_verified_by_the_scan(engine, tmp_path):
    lines = [f'{{"a":{i},"b":"x","c":1.5,"d":true,"e":{{"x":1}}}}' for i in range(500)]
    path = put(tmp_path / "a.jsonl", *lines)
    dataset = provisional(engine, path, "a", "b", "c", "d", "e", "nope")
    assert dataset.provisional
    assert types(dataset) == {
        "a": "BIGINT", "b": "VARCHAR", "c": "DOUBLE", "d": "BOOLEAN", "e": "STRUCT(x BIGINT)"
    }  # fmt: skip
    assert read(engine, dataset, ("a", "b", "c", "d")) == [(i, "x", 1.5, True) for i in range(500)]


SURPRISES = [
    '{"a":"x","b":"x","c":1}', '{"a":1.5,"b":"x","c":1}', '{"a":"7","b":"x","c":1}',
    '{"a":1,"b":"x","c":"1"}', '{"a":1,"b":"x","c":9007199254740993}', '{"a":true,"b":"x"}',
    '{"a":9223372036854775808}', '{"a":1,"b":["x"]}', '{"a":1,"b":"[1]"}', '{"a":1,"nope":1}',
    '{"a":1,"a":2}', '{"a":', "[1]",
    '{"a":1,"b":{"x":1}}', '{"a":1,"b":"x","c":[1]}',
]  # fmt: skip


@pytest.mark.parametrize("line", SURPRISES)
def test_a_surprise_fails_the_query_whatever_it_filters(engine, tmp_path, line):
    lines = ['{"a":1,"b":"x","c":0.5}'] * 5000
    path = put(tmp_path / "a.jsonl", *lines, line, *lines)
    dataset = provisional(engine, path, "a", "b", "c", "nope")
    assert dataset.provisional
    columns = [dataset.read_column(n, n) for n in "abc"]
    sql = dataset.format.scan_sql(dataset.files, columns, dataset.options, engine)
    with pytest.raises(Exception, match=r"SURPRISE|JSON|exceeded") as caught:
        engine.rows(f"SELECT a, c FROM {sql} WHERE b = 'never' AND a > 5")
    assert jsonl_checked.is_surprise(str(caught.value))
    explained = dataset.format.explain_failure(dataset.files, dataset.options, str(caught.value))
    assert jsonl_checked.SURPRISE in str(explained)


def test_a_line_longer_than_the_sample_had_is_a_surprise(engine, tmp_path):
    path = put(
        tmp_path / "a.jsonl", *['{"a":1}'] * 5000, json.dumps({"a": 1, "t": "x" * (40 << 20)})
    )
    dataset = provisional(engine, path, "a")
    with pytest.raises(Exception, match="maximum_object_size") as caught:
        read(engine, dataset)
    explained = dataset.format.explain_failure(dataset.files, dataset.options, str(caught.value))
    assert jsonl_checked.SURPRISE in str(explained)
    assert len(table(engine, path)) == 5001


def test_texts_beside_other_scalars_are_no_surprise(engine, tmp_path):
    lines = ['{"b":"x"}', '{"b":"{x"}', '{"b":"[a](b)"}', '{"b":"\\"q"}', '{"b":null}']
    path = put(tmp_path / "a.jsonl", *lines * 100, '{"b":1.50}', '{"b":true}', '{"b":"\\u00e9"}')
    dataset = provisional(engine, path, "b")
    assert dataset.provisional
    assert read(engine, dataset) == table(engine, path)
    assert types(opened(engine, path)) == types(dataset)


def test_texts_that_are_json_themselves_are_looked_at_closer(engine, tmp_path):
    path = put(tmp_path / "a.jsonl", *['{"b":"[1]"}', '{"b":"x"}'] * 100, '{"b":"{}"}')
    dataset = provisional(engine, path, "b")
    assert dataset.options["as_json"] == ("b",)
    assert read(engine, dataset)[-1] == ("{}",)
    dataset = provisional(engine, put(path, '{"b":"[1]"}', *['{"b":"x"}'] * 100, '{"b":{}}'), "b")
    with pytest.raises(Exception, match=jsonl_checked.SURPRISE):
        read(engine, dataset)


def test_what_was_verified_is_kept(engine, tmp_path):
    import os

    path = put(tmp_path / "a.jsonl", *['{"a":1,"b":"x","e":[1]}'] * 10)
    os.utime(path, ns=(10**18, 10**18))
    first = provisional(engine, path, "a", "e", "nope")
    first.confirm()
    schema_cache.forget()
    asked = len(engine.statements)
    second = provisional(engine, path, "a", "e", "nope")
    assert not second.provisional
    assert types(second) == types(first) == {"a": "BIGINT", "e": "BIGINT[]"}
    assert len(engine.statements) == asked
    assert "sampled" not in second.options
    path.write_bytes(path.read_bytes().replace(b"1", b"2"))
    assert provisional(engine, path, "a", "e", "nope").provisional


def test_no_sample_where_names_differ_in_case_or_lines_are_odd(engine, tmp_path):
    assert not provisional(engine, put(tmp_path / "a.jsonl", '{"Id":1}'), "id").provisional
    with pytest.raises(StorageError, match="line 1"):
        provisional(engine, put(tmp_path / "b.jsonl", "[1]"), "id")


# ---- the schema cache ----------------------------------------------------------------------------


def test_schemas_are_looked_up_once_per_version(engine, tmp_path):
    import os

    for name in "abc":
        put(tmp_path / f"{name}.jsonl", '{"a":1,"n":{"x":[1.5]}}')
        os.utime(tmp_path / f"{name}.jsonl", ns=(10**18, 10**18))
    first = types(opened(engine, tmp_path / "*.jsonl"))
    schema_cache.forget()
    asked = len(engine.statements)
    assert types(opened(engine, tmp_path / "*.jsonl")) == first
    # One statement: DuckDB is asked how it spells the nested type.
    assert len(engine.statements) == asked + 1
    put(tmp_path / "b.jsonl", '{"a":"x","n":null}')
    assert types(opened(engine, tmp_path / "*.jsonl"))["a"] == "VARCHAR"


def test_a_spoilt_cache_counts_as_none(engine, tmp_path):
    import os

    path = put(tmp_path / "a.jsonl", '{"a":1}')
    os.utime(path, ns=(10**18, 10**18))
    opened(engine, path)
    cache = tmp_path / ".cache" / "zql" / "files"
    [file] = cache.iterdir()
    assert file.stat().st_mode & 0o077 == 0 or cache.parent.stat().st_mode & 0o077 == 0
    for content in (b"", b"{", b"[]", b'{"layout": 1}', file.read_bytes().replace(b"a", b"b")):
        file.write_bytes(content)
        schema_cache.forget()
        assert types(opened(engine, path)) == {"a": "BIGINT"}


def test_fresh_files_are_not_kept_on_disk(engine, tmp_path):
    opened(engine, put(tmp_path / "a.jsonl", '{"a":1}'))
    assert not (tmp_path / ".cache").exists()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text('ab1"\\é', max_size=3),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["a", "b", "A", ""]), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip


def same(value, back):
    """Whether a value came back: as itself, as its text, or as JSON text of it."""
    if isinstance(back, str) and not isinstance(value, str):
        back = json.loads(back, parse_float=Decimal)
    elif isinstance(back, str) and back != value:
        return json.loads(back) == value
    if isinstance(value, list):
        return len(value) == len(back) and all(map(same, value, back))
    if isinstance(value, dict):
        return all(same(value.get(key), back.get(key)) for key in {*value, *back})
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value is back or value == back
    exact = Decimal(repr(value))
    return exact == (Decimal(repr(back)) if isinstance(back, float) else back)


@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
@given(values=st.lists(JSON, min_size=1, max_size=5))
def test_no_value_is_lost(engine, tmp_path, values):
    schema_cache.forget()
    path = put(tmp_path / "a.jsonl", *[json.dumps({"v": v}) for v in values])
    dataset = opened(engine, path)
    for value, (back,) in zip(values, read(engine, dataset), strict=True):
        assert same(value, back), (types(dataset), value, back)


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(values=st.lists(JSON, min_size=1, max_size=4))
def test_evidence_is_kept_and_merged(values):
    found = [inference.of_value(json.loads(json.dumps(v), parse_float=inference.Number))
             for v in values]  # fmt: skip
    merged = inference.merge_all(found)
    assert inference.from_json(json.loads(json.dumps(inference.as_json(merged)))) == merged
    backwards = inference.merge_all(found[::-1])
    assert inference.type_of(merged).count("STRUCT") == inference.type_of(backwards).count("STRUCT")
    assert inference.merge(merged, merged) == merged


# ---- writing -------------------------------------------------------------------------------------


def test_nan_is_never_written_as_such(engine, tmp_path):
    path = tmp_path / "a.jsonl"
    for value in ("'nan'::DOUBLE", "'-inf'::FLOAT", "[1.5, 'inf'::DOUBLE]", "{'a': 'nan'::DOUBLE}"):
        with pytest.raises(Exception, match='column "v" holds NaN or infinity'):
            write(engine, "jsonl", path, f"SELECT {value} AS v")
    query = "SELECT {'a': 'nan'::DOUBLE, 'b': 'NaN,\"NaN'} AS v, '-inf'::DOUBLE AS w"
    write(engine, "jsonl", path, query, options={"nan": "null"})
    assert json.loads(path.read_text()) == {"v": {"a": None, "b": 'NaN,"NaN'}, "w": None}
    write(engine, "jsonl", path, query, options={"nan": "text"})
    assert json.loads(path.read_text()) == {"v": {"a": "NaN", "b": 'NaN,"NaN'}, "w": "-Infinity"}
    write(engine, "jsonl", path, "SELECT {'a': 1.5::DOUBLE, 'b': 'NaN'} AS v")
    assert json.loads(path.read_text()) == {"v": {"a": 1.5, "b": "NaN"}}


def test_lines_are_plain_json(engine, tmp_path):
    path = tmp_path / "a.jsonl"
    query = """SELECT 'é"\\' || chr(10) || chr(8232) || chr(0) AS "k 'x"", NULL AS "", [1] AS z,
               12345678901234567890123456789012345.678::DECIMAL(38,3) AS d"""
    query = query.replace('"k \'x""', '"k \'x"').replace('AS ""', 'AS "n"')
    write(engine, "jsonl", path, query)
    [line] = path.read_text(encoding="utf-8").split("\n")[:-1]
    found = json.loads(line, parse_float=Decimal)
    assert found == {
        "k 'x": 'é"\\\n\u2028\0', "n": None, "z": [1],
        "d": Decimal("12345678901234567890123456789012345.678"),
    }  # fmt: skip
