"""Text in which Hadoop's settings would replace variables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tablefmt.expressions.ddl import schema_from, to_spark_json
from tablefmt.model.schema import Field, Struct
from tablefmt.spark.backends.native.relation_columns import (
    is_replaced,
    replaced_name,
    without_variables,
)

REPLACED = ["${env.HOME}", "a${user.home}b", "${env.A:-b}", "${fs.s3a.secret.key}", "${}"]
PLAIN = ["", "a", "${", "$", "${env:HOME}", "${a b}", "$ {user.home}", "${a$b}", "${x:y.z}"]


@pytest.mark.parametrize("text", REPLACED + PLAIN)
def test_what_hadoop_may_know(text: str) -> None:
    """SEC-4: Hadoop's Configuration reads `${…}` this way."""
    assert is_replaced(text) == (text in REPLACED)


def test_names_in_files_at_any_depth() -> None:
    """SEC-4: a column's own name is in no file once it has another one there."""
    plain = schema_from("a BIGINT, s STRUCT<b: BIGINT>")
    assert replaced_name(plain) is None
    named = replace(plain.fields[0], name="${env.HOME}")
    assert replaced_name(replace(plain, fields=(named, plain.fields[1]))) is None
    inner = plain.fields[1].type
    assert isinstance(inner, Struct)
    deep: Field = replace(inner.fields[0], physical="${env.HOME}")
    struct = replace(plain.fields[1], type=Struct((deep,)))
    assert replaced_name(replace(plain, fields=(plain.fields[0], struct))) == "${env.HOME}"


def test_comments_that_would_be_replaced_are_left_out() -> None:
    """SEC-4: comments go along with the columns, but no read needs them."""
    schema = schema_from(
        "a BIGINT COMMENT 'costs $ {x}', s STRUCT<b: BIGINT COMMENT '${env.HOME}'>"
    )
    described = without_variables(to_spark_json(schema))
    assert described["fields"][0]["metadata"] == {"comment": "costs $ {x}"}
    assert described["fields"][1]["type"]["fields"][0]["metadata"] == {}
    assert without_variables(to_spark_json(schema_from("a BIGINT"))) == to_spark_json(
        schema_from("a BIGINT")
    )
