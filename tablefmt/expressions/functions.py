"""Spark functions by the dependency of their values, and the functions that a CHECK may call. Pure.

The allowed functions depend on one row only, and return equal values for equal rows. None of them
runs code that a name selects, or has side effects. None reads a file, the session or the clock, or
is random. Spec: SQL-6 (spec/changing.md has the same table).
"""

from __future__ import annotations

from collections.abc import Mapping

BY_KIND: Mapping[str, str] = {
    "conditions": """
        coalesce equal_null if ifnull ilike isnan isnotnull isnull like nanvl nullif nullifzero nvl
        nvl2 regexp regexp_like rlike zeroifnull
        """,
    "casts": """
        bigint binary boolean cast date decimal double float int smallint string timestamp tinyint
        try_cast
        """,
    "numbers": """
        abs acos acosh asin asinh atan atan2 atanh bin bit_count bit_get bround cbrt ceil ceiling
        conv cos cosh cot csc degrees div e exp expm1 factorial floor getbit greatest hex hypot
        least ln log log10 log1p log2 mod negative pi pmod positive pow power radians rint round sec
        shiftleft shiftright shiftrightunsigned sign signum sin sinh sqrt tan tanh try_add
        try_divide try_mod try_multiply try_subtract unhex width_bucket
        """,
    "texts": """
        ascii base64 bit_length btrim char char_length character_length chr concat concat_ws
        contains decode elt encode endswith find_in_set format_number format_string initcap instr
        is_valid_utf8 lcase left len length levenshtein locate lower lpad ltrim luhn_check mask
        octet_length overlay position printf regexp_count regexp_extract regexp_extract_all
        regexp_instr regexp_replace regexp_substr repeat replace reverse right rpad rtrim soundex
        space split split_part startswith substr substring substring_index to_binary to_char
        to_number to_varchar translate trim try_to_binary try_to_number ucase unbase64 upper
        """,
    "digests": "crc32 hash md5 sha sha1 sha2 xxhash64",
    "times": """
        add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part
        date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear
        extract from_unixtime from_utc_timestamp hour last_day make_date make_dt_interval
        make_interval make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval minute
        month monthname months_between next_day quarter second timestamp_micros timestamp_millis
        timestamp_seconds timestampadd timestampdiff to_date to_timestamp to_timestamp_ltz
        to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_make_timestamp try_to_date
        try_to_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday
        weekofyear year
        """,
    "arrays, maps and structs": """
        aggregate array array_append array_compact array_contains array_distinct array_except
        array_insert array_intersect array_join array_max array_min array_position array_prepend
        array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip
        cardinality element_at exists filter flatten forall get map map_concat map_contains_key
        map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with
        named_struct reduce sequence size slice sort_array str_to_map struct transform
        transform_keys transform_values try_element_at zip_with
        """,
    "JSON and addresses": """
        from_json get_json_object json_array_length json_object_keys parse_url schema_of_json
        to_json try_parse_url try_url_decode url_decode url_encode
        """,
}
"""Names of allowed functions in lower case, by subject."""


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


PURE_FUNCTIONS = words(" ".join(BY_KIND.values()))

CHANCE_FUNCTIONS = words("""
    input_file_block_length input_file_block_start input_file_name monotonically_increasing_id rand
    randn random randstr shuffle spark_partition_id uniform uuid
""")
"""Functions with another value each time, or by where a row is read."""

CLOCK_FUNCTIONS = words("""
    curdate current_date current_time current_timestamp localtime localtimestamp now
""")
"""Functions with another value in another statement."""

SESSION_FUNCTIONS = words("""
    current_catalog current_database current_path current_schema current_timezone current_user
    session_user user version
""")
"""Functions with another value in another session."""

CHANGING_FUNCTIONS = CHANCE_FUNCTIONS | CLOCK_FUNCTIONS | SESSION_FUNCTIONS
"""Functions whose values change by themselves."""

assert not PURE_FUNCTIONS & CHANGING_FUNCTIONS
assert sum(len(names.split()) for names in BY_KIND.values()) == len(PURE_FUNCTIONS)
