"""Values of an expression of the log are bounded by its row (SQL-6)."""

from __future__ import annotations

import pytest

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.constraint_grammar import rewritten

COLUMNS = ["k", "t", "ts", "s", "tags"]


def _nested(times: int, begin: str, inner: str, end: str) -> str:
    return f"{begin * times}{inner}{end * times} <> 'a'"


GROWING = {
    "repeat('x', 2000000000) = t": "repeat",
    "repeat(repeat('x', 60000), 60000) = t": "repeat",
    "repeat(t, k) = 'a'": "repeat",
    "LPAD (t, 2000000000, ' ') = t": "lpad",
    "lpad(t, 1e9, ' ') = t": "lpad",
    "lpad(t, 65536 * 65536, ' ') = t": "lpad",
    "lpad(t, int('99999999'), ' ') = t": "lpad",
    "lpad(t, 99999999L, ' ') = t": "lpad",
    "rpad(t, (99999999)) = t": "rpad",
    "space(2000000000) = t": "space",
    "space(-2000000000) = t": "space",
    "size(array_repeat(1, 2000000000)) > 0": "array_repeat",
    "size(sequence(1, 2000000000)) > 0": "sequence",
    "size(sequence(-2000000000, 1)) > 0": "sequence",
    "size(sequence(1, k)) > 0": "sequence",
    "size(array_insert(tags, 2000000000, 1)) > 0": "array_insert",
    "format_number(k, 2000000000) = t": "format_number",
    "format_string('%2000000000d', k) = t": "format_string",
    "printf('%.2000000000f', k) = t": "printf",
    "printf(t, k) = t": "printf",
    "round(k, 600000000) > 1": "round",
    "ceil(k, -600000000) > 1": "ceil",
    _nested(10, "hex(", "t", ")"): "hex",
    _nested(10, "replace(", "t", ", 'a', 'aa')"): "replace",
    _nested(10, "regexp_replace(", "t", ", '.', '$0$0')"): "regexp_replace",
    _nested(6, "to_json(struct(", "t", "))"): "to_json",
    _nested(9, "format_string('%1$s%1$s', ", "t", ")"): "format_string",
    _nested(9, "array_join(transform(array(1, 1), i -> ", "t", "), '')"): "transform",
    _nested(9, "transform(", "array(t)", ", x -> concat(x, x))"): "transform",
    "aggregate(sequence(1, 60), t, (acc, x) -> concat(acc, acc)) = t": "aggregate",
    "reduce(tags, 'a', (acc, x) -> acc || acc) = t": "reduce",
    "size(flatten(transform(tags, x -> tags))) > 1": "transform",
    "size(transform(sequence(1, 60000), x -> sequence(1, 60000))) > 1": "transform",
    "replace(t, 'a', t) = 'b'": "replace",
    "regexp_replace(t, t, 'a') = 'b'": "regexp_replace",
    "regexp_replace(t, '(?=(.*))', '$1') = t": "regexp_replace",
    "size(regexp_extract_all(t, '(?<!a)(.*)')) > 1": "regexp_extract_all",
    "concat_ws(t, t, 'a', t) = t": "concat_ws",
    "array_join(tags, t) = 'a'": "array_join",
    "array_join(tags, ',', t) = 'a'": "array_join",
    f"from_json(t, '{'a' * 1200} INT') IS NULL": "from_json",
    "from_json(t, t) IS NULL": "from_json",
}


@pytest.mark.parametrize("text", GROWING)
def test_a_value_that_grows_without_end_is_refused(text: str) -> None:
    """SQL-6: a short text asks for a value far larger than its row."""
    with pytest.raises(UnsupportedFeatureError, match=rf"{GROWING[text]}\(\) may make") as caught:
        rewritten(text, COLUMNS)
    assert caught.value.features == ["sql:size"]


SMALL = """
lpad(t, 10, '0') = t OR rpad(t, 65536) = t OR repeat('x', 3) = t OR space(2) = t
replace(t, '-', '') <> '' OR replace(t, '-') <> '' OR replace(t, 'a', 'bb') <> 'c'
regexp_replace(t, '(a)', '$1$1') = 'aab' OR size(regexp_extract_all(t, '(?:a)(b)', 1)) > 0
transform(tags, x -> x + k)[0] > 1 OR size(transform(s, (x, i) -> struct(x, i))) > 0
transform(transform(tags, x -> concat(x, x)), x -> concat(x, 'b'))[0] = 'aab'
aggregate(tags, 0, (acc, x) -> acc + x * acc, acc -> acc * 2) = 6
aggregate(tags, 0, (acc, x) -> if(x > acc, x, acc)) > 1 OR reduce(tags, '', (a, x) -> a || x) = t
concat_ws('-', t, t) <> '' OR array_join(tags, ',', 'none') <> '' OR size(sequence(1, 10)) = 10
format_string('%s-%05d', t, k) = 'ab-1' OR format_number(k, 2) <> ''
format_number(k, '#,##0') = t
round(k, 2) = 1.5 OR bround(k, -2) = 1 OR hex(unhex(hex(t))) <> '' OR url_encode(to_json(s)) <> t
filter(tags, (x, i) -> i > 0)[0] = 2 OR exists(tags, x -> concat(x, t, ts) = t)
cast(cast(cast(cast(k AS STRING) AS INT) AS STRING) AS BINARY) = X'00'
from_json(t, 'a INT, b STRING').a > 1 OR date_format(ts, 'yyyy-MM') = t
"""


def test_a_value_in_proportion_to_its_row_is_taken() -> None:
    """SQL-6: conditions as users write them."""
    for text in SMALL.strip().splitlines():
        rewritten(text, COLUMNS)
