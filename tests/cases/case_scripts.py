"""The jobs of `cases.jsonl` in ZQL.

`<way>` marks where, in a second run, Python stands between the source and the rest: WAYS says which
columns go through it. What a job means is the same both times.
"""

from __future__ import annotations

SCRIPTS = {
    "J01": "FROM 'mixed.jsonl' <way> |> SELECT id, CAST(v AS STRING) AS s |> ORDER BY id",
    "J03": "FROM 'late_key.jsonl' <way> |> AGGREGATE count(*) AS n, count(b) AS nb, sum(b) AS sb",
    "J05": "FROM 'uint64.jsonl' <way> |> ORDER BY n |> SELECT CAST(id AS STRING) AS s",
    "J07": "FROM 'int_then_float.jsonl' <way> |> ORDER BY n |> LIMIT 2"
    " |> SELECT CAST(id AS STRING) AS s",
    "J09": "FROM 'nan.jsonl' <way> |> ORDER BY n |> SELECT CAST(v AS STRING) AS s",
    "J11": "FROM 'dup_key.jsonl' <way> |> ORDER BY n |> SELECT a",
    "J13": "FROM 'case_keys.jsonl' <way>"
    " |> SELECT id, `UserUPN` AS x, `UserUpn` AS y |> ORDER BY id",
    "J14": "FROM 'bad_utf8.jsonl' <way> |> AGGREGATE count(*) AS n",
    "J16": "FROM 'bom.jsonl' <way> |> SELECT a |> ORDER BY a",
    "J18": "FROM 'crlf_blank.jsonl' <way> |> AGGREGATE count(*) AS n, sum(a) AS s",
    "J20": "FROM 'cut.jsonl' <way> |> AGGREGATE count(*) AS n",
    "J22": "FROM 'pretty.jsonl' <way> |> SELECT a |> ORDER BY a",
    "J24": "FROM 'long_line.jsonl.gz' <way> |> SELECT length(t) AS n |> ORDER BY n",
    "J26": "FROM '*.jsonl*' <way> |> AGGREGATE count(*) AS n, sum(a) AS s",
    "J28": "FROM 'odd_keys.jsonl' <way> |> SELECT `a.b` AS c1, `a b` AS c2, `sel\"ect` AS c3,"
    " `ключ` AS c4, `it's` AS c5, `` AS c6",
    "J30": "FROM 'part*.jsonl' <way> |> SELECT id, key1, key2 |> ORDER BY id",
    "J32": "FROM 'datelike.jsonl' <way> |> WRITE 'out.jsonl'",
    "J34": "FROM 'zip.jsonl' <way> |> SELECT zip |> ORDER BY zip",
    "J36": "FROM 'empty_list_first.jsonl' <way>"
    " |> SELECT id, array_length(tags) AS n |> ORDER BY id",
    "J40": "FROM 'u2028.jsonl' <way> |> AGGREGATE count(*) AS n, sum(length(t)) AS s",
    "C01": "FROM 'newline.csv' <way> |> SELECT id, t |> ORDER BY id",
    "C03": "FROM 'mixed_eol.csv' <way> |> AGGREGATE count(*) AS n, sum(v) AS s",
    "C05": "FROM 'short_row.csv' <way> |> AGGREGATE count(*) AS n",
    "C07": "FROM 'dup_header.csv' <way> |> SELECT *",
    "C09": "FROM '*.csv' <way> |> AGGREGATE count(*) AS n, sum(v) AS s",
    "C11": "FROM 'latin1.csv' <way> |> ORDER BY id |> SELECT city",
    "C13": "FROM read_csv('comma_decimal.csv', delim => ';') <way>"
    " |> ORDER BY id |> SELECT CAST(p AS STRING) AS s",
    "C15": "FROM 'sci_ids.csv' <way> |> ORDER BY n |> SELECT CAST(id AS STRING) AS s",
    "C17": "FROM 'codes.csv' <way> |> ORDER BY n |> SELECT CAST(code AS STRING) AS s",
    "C19": "FROM 'late_text.csv' <way> |> AGGREGATE count(*) AS n, count(v) AS nv",
    "P01": "FROM 'p*.parquet' <way> |> AGGREGATE sum(a) AS sa, string_agg(b ORDER BY b) AS sb",
    "P03": "FROM 'p*.parquet' <way> |> ORDER BY n |> SELECT CAST(v AS STRING) AS s",
    "P05": "FROM 'int96.parquet' <way> |> ORDER BY n |> SELECT extract(year FROM ts) AS y",
    "P07": "FROM 'naive_ts.parquet' <way> |> SELECT CAST(ts AS STRING) AS s",
    "P09": "FROM 'p*.parquet' <way> |> AGGREGATE count(*) AS n GROUP BY k |> ORDER BY k",
    "P11": "FROM 'u64.parquet' <way> |> WHERE v > 1 |> WRITE 'out.parquet';"
    " FROM 'out.parquet' |> SELECT CAST(v AS STRING) AS s",
    "P13": "FROM 'nested.parquet' <way> |> SELECT id, items IS NULL AS isnull,"
    " array_length(items) AS n, items[1].k AS k |> ORDER BY id",
    "P15": "FROM 'p*.parquet' <way> |> AGGREGATE count(*) AS n, sum(v) AS s",
    "P17": "FROM 'keywords.parquet' <way> |> WHERE `select` > 1"
    " |> SELECT `select`, `group`, `from`, `order by`, `count(*)`",
    "P19": "FROM 'd/code=*/*.parquet' <way> |> SELECT code, v |> ORDER BY v",
    "P21": "FROM 'p*.parquet' <way> |> AGGREGATE count(*) AS n",
    "P23": "FROM 'dup_cols.parquet' <way> |> SELECT *",
    "S01": "FROM 'l.jsonl' <way> |> AS l |> LEFT JOIN (FROM 'r.jsonl') AS r ON l.k = r.k"
    " |> SELECT l.id, r.v |> ORDER BY id",
    "S03": "FROM 'l.jsonl' <way> |> ANTI JOIN (FROM 'r.jsonl') USING (k)"
    " |> SELECT id |> ORDER BY id",
    "S05": "FROM 't.jsonl' <way> |> AGGREGATE count(*) AS n, count(v) AS nv, sum(v) AS s"
    " GROUP BY k |> ORDER BY k NULLS LAST",
    "S07": "FROM 't.jsonl' <way> |> ORDER BY id |> SELECT a / b AS q, a // b AS d, mod(a, b) AS m",
    "S09": "FROM 't.jsonl' <way> |> AGGREGATE CAST(sum(v) AS STRING) AS s",
    "S11": "FROM 't.jsonl' <way> |> ORDER BY s |> SELECT s",
    "S13": "FROM 't.jsonl' <way> |> WHERE x IS NULL |> ORDER BY y |> LIMIT 10 |> SELECT id",
    "S15": "FROM 't.jsonl' <way> |> DISTINCT ON (i) ORDER BY j DESC |> WHERE j < 10"
    " |> SELECT i, j |> ORDER BY i",
    "S17": "FROM 'a.jsonl' <way> |> UNION ALL BY NAME (FROM 'b.jsonl')"
    " |> SELECT x, y |> ORDER BY x",
    "S19": "FROM 't.jsonl' <way> |> EXTEND sum(v) OVER (ORDER BY k) AS s"
    " |> SELECT id, s |> ORDER BY id",
    "S21": "FROM 't.jsonl' <way> |> AGGREGATE"
    " count(*) FILTER (WHERE v > 1 OR s LIKE '%x%') AS yes,"
    " count(*) FILTER (WHERE NOT (v > 1 OR s LIKE '%x%')) AS no,"
    " count(*) FILTER (WHERE (v > 1 OR s LIKE '%x%') IS NULL) AS unknown",
    "S23": "FROM 'dst.parquet' <way>"
    " |> AGGREGATE count(*) AS n GROUP BY date_trunc('hour', ts) AS h |> ORDER BY h",
    "S25": "FROM 't.jsonl' <way> |> EXTEND random() AS r |> WHERE r < 0.5"
    " |> SELECT r < 0.5 AS ok |> DISTINCT",
    "G01": "FROM '[Avalon]_daily.jsonl' <way> |> AGGREGATE count(*) AS n",
    "G03": "FROM 'nothing/*.jsonl' |> AGGREGATE count(*) AS n",
    "G05": "FROM 'root/**/*.jsonl' <way> |> AGGREGATE count(*) AS n, sum(a) AS s",
    "G07": "FROM 'd/*' <way> |> AGGREGATE count(*) AS n",
    "O01": "FROM 'in.jsonl' <way> |> WHERE a > 1 |> WRITE 'in.jsonl'",
    "O03": "IMPORT PYTHON 'udf.py';"
    " FROM 'in*.jsonl' |> EXTEND udf.boom(a) AS b |> WRITE 'out/{shard}.parquet'",
    "O05": "FROM 'in*.jsonl' <way> |> WRITE 'out/{shard:02d}.jsonl'",
    "O07": "FROM 'in*.jsonl' <way> |> WRITE 'out.jsonl'",
    "O09": "FROM 'odd.jsonl' <way> |> WRITE 'out.csv'",
    "O11": "IMPORT PYTHON 'udf.py'; FROM 'in.jsonl' |> EXTEND udf.f(a) AS b"
    " |> WRITE 'out.jsonl' OPTIONS (mode = 'skip')",
    "U01": "IMPORT PYTHON 'udf.py';"
    " FROM 'in.jsonl' |> EXTEND udf.locked(a) AS b |> WRITE 'out.jsonl'",
    "U03": "IMPORT PYTHON 'udf.py'; FROM 'in.jsonl' |> EXTEND udf.to_int(s) AS n",
    "U05": "IMPORT PYTHON 'udf.py'; FROM 'in.jsonl' |> EXTEND udf.nonempty(s) AS t"
    " |> SELECT id, t |> ORDER BY id",
    "U07": "IMPORT PYTHON 'udf.py'; FROM 'in.jsonl' |> EXTEND udf.big(a) AS b"
    " |> WRITE 'out.parquet'; FROM 'out.parquet' |> SELECT CAST(b AS STRING) AS s",
    "U09": "IMPORT PYTHON 'udf.py'; FROM 'in.jsonl' |> EXTEND udf.maybe(a) AS b"
    " |> ORDER BY a |> SELECT b.x AS x",
    "U11": "IMPORT PYTHON 'udf.py'; FROM 'in.jsonl' |> EXTEND udf.f(a) AS b",
    "U13": "IMPORT PYTHON 'udf.py'; FROM 'in.jsonl'"
    " |> EXTEND udf.np1(a) AS i, udf.np2(a) AS f, udf.now(a) AS t |> WRITE 'out.jsonl'",
    "R01": "IMPORT PYTHON 'udf.py';"
    " FROM 'in*.jsonl' |> EXTEND udf.hog(a) AS n |> WRITE 'out/{shard}.jsonl'",
    "R03": "IMPORT PYTHON 'udf.py';"
    " FROM 'in*.jsonl' |> EXTEND udf.die_once(a) AS b |> WRITE 'out/{shard}.jsonl'",
    "R05": "SHOW SETTINGS |> SELECT name, value",
    "R07": "FROM 'd/*.jsonl' |> AGGREGATE count(*) AS n",
    "R09": "FROM 'members.jsonl.gz' <way> |> AGGREGATE count(*) AS n, sum(a) AS s;"
    " FROM 'frames.jsonl.zst' <way> |> AGGREGATE count(*) AS n, sum(a) AS s",
    "R11": "IMPORT PYTHON 'udf.py';"
    " FROM 'in*.jsonl' |> EXTEND udf.slow(a) AS b |> WRITE 'out/{shard}.jsonl'",
    "X01": "FROM 'inject_keys.jsonl' <way> |> SELECT * |> WRITE 'out.parquet'",
    "X03": "FROM 'names.jsonl' <way> |> WHERE name = $p |> SELECT id",
    "X05": "FROM 'langs.jsonl' |> WRITE 'out/{lang}.jsonl'",
}

# A column behind which `:whole` stands goes through the function that says its type: the first rows
# of it hold only NULL, which tells nothing.
WAYS = {
    "J01": "v",
    "J03": "b:whole",
    "J05": "id",
    "J07": "id",
    "J09": "v",
    "J11": "a",
    "J13": "`UserUPN`, `UserUpn`",
    "J14": "t",
    "J16": "a",
    "J18": "a",
    "J20": "a",
    "J22": "a",
    "J24": "t",
    "J26": "a",
    "J28": "`a.b`, `a b`, `sel\"ect`, `ключ`, `it's`, ``",
    "J30": "key1, key2",
    "J32": "d",
    "J34": "zip",
    "J36": "tags",
    "J40": "t",
    "C01": "t",
    "C03": "v",
    "C05": "h1",
    "C09": "v",
    "C11": "city",
    "C13": "p",
    "C15": "id",
    "C17": "code",
    "C19": "v",
    "P01": "a, b",
    "P03": "v",
    "P05": "ts",
    "P07": "ts",
    "P09": "k",
    "P11": "v",
    "P13": "items",
    "P15": "v",
    "P17": "`select`, `count(*)`",
    "P19": "code, v",
    "P21": "v",
    "S01": "k",
    "S03": "k",
    "S05": "k, v",
    "S07": "a, b",
    "S09": "v",
    "S11": "s",
    "S13": "x, y",
    "S15": "i, j",
    "S17": "x, y",
    "S19": "v, k",
    "S21": "v, s",
    "S23": "ts",
    "S25": "i",
    "G01": "a",
    "G05": "a",
    "G07": "a",
    "O01": "a",
    "O05": "a",
    "O07": "a",
    "O09": "s",
    "R09": "a",
    "X03": "name",
}

LATER = {
    "X07": "tests/repl and tests/display look at what reaches a terminal",
    "X09": "there is no HTML output yet",
    "X11": "tests in this folder: test_secrets_stay_secret",
    "X13": "tests in this folder: test_planted_files_are_not_loaded",
    "X15": "tests in this folder: test_deep_scripts",
}
"""Cases that have no script of their own, and where they are looked at."""
