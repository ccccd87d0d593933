"""Distribution of the tests over the processes of `pytest -n 2 --dist loadfile`, and their order.

One process has Spark's session and everything that uses it: a second one costs a JVM that has to
warm up. The other begins with the files that take longest, so that neither is left alone at the
end with a long one.
"""

from __future__ import annotations

from binascii import crc32
from collections import defaultdict
from functools import cache

import pytest
from xdist.scheduler import LoadFileScheduling

ADDRESS = " at 0x"
SESSION = "tests/spark/"
CONNECT = "tests/spark/connect/"
LONG = (
    CONNECT,
    "tests/spark/s3/test_leaks.py",
    "tests/spark/cluster/",
    "tests/documents/",
    "tests/demo/",
    # From here on 25 seconds of processor time to 4.
    "tests/system/transactions/test_random_histories.py",
    "tests/system/transactions/test_cells_file_and_row.py",
    "tests/system/simulation/test_rules_under_faults.py",
    "tests/store/test_s3_answers.py",
    "tests/store/test_contract.py",
    "tests/store/test_open_probe_wrap.py",
    "tests/conflict/test_serialisability.py",
    "tests/snapshot/test_deletes.py",
    "tests/system/stateful/",
    "tests/expressions/test_prune.py",
    "tests/expressions/test_arrow_to_predicate.py",
    "tests/expressions/test_predicate.py",
    "tests/system/transactions/",
    "tests/system/simulation/",
    "tests/operations/test_merge_differential.py",
    "tests/table/test_special_names.py",
    "tests/session/test_fingerprint.py",
    "tests/store/",
    "tests/conflict/test_lineage.py",
    "tests/data/",
    "tests/spec/",
)
"""Slow files that do not use the session, the slowest first.

All other files are so quick that both processes end at about the same time.
"""


SHARES: dict[str, dict[str, int]] = {
    "tests/changes/test_split_types.py": {
        "test_rows_are_exact_or_the_range_is_refused": 2,
    },
    "tests/commit/test_skipped_cursors.py": {
        "test_random_interleavings": 2,
    },
    "tests/conflict/test_serialisability.py": {
        "test_every_history_has_a_serial_order": 2,
    },
    "tests/data/test_matching.py": {
        "test_rows_of_conditions": 2,
    },
    "tests/engines/test_polars.py": {
        "test_conditions_over_files_of_several_schemas": 3,
    },
    "tests/expressions/test_words.py": {
        "test_words_are_names_where_the_reader_of_constraints_has_them_so": 2,
    },
    "tests/maintenance/test_retention_histories.py": {
        "test_what_is_kept_reads_as_it_was_and_the_rest_is_refused": 2,
    },
    "tests/operations/test_merge_differential.py": {
        "test_random_merges_do_what_plain_python_does": 2,
    },
    "tests/pipes/test_changed_columns.py": {
        "test_random_histories_of_columns": 2,
    },
    "tests/pipes/test_exactly_once.py": {
        "test_random_histories_with_kills": 2,
    },
    "tests/pipes/test_second_rows.py": {
        "test_a_run_ends_in_the_sources_rows_or_in_an_error": 2,
    },
    "tests/session/test_missing_extras.py": {
        "test_what_is_missing_is_named_with_its_extra": 2,
    },
    "tests/snapshot/test_skipped_entries.py": {
        "test_readers_see_skipped_entries": 3,
    },
    "tests/snapshot/test_wrong_checkpoints.py": {
        "test_wrong_content_gives_no_wrong_answer": 3,
    },
    "tests/spark/backends/test_backend_setting.py": {
        "test_every_way_to_read_goes_by_it": 2,
    },
    "tests/spark/backends/test_deletes.py": {
        "test_any_positions_of_larger_files_are_left_out": 3,
    },
    "tests/spark/backends/test_partitions.py": {
        "test_each_partition_value_is_exact_in_the_log": 3,
    },
    "tests/spark/backends/test_physical_names.py": {
        "test_conditions_mean_the_columns_of_the_table": 2,
    },
    "tests/spark/backends/test_pruning.py": {
        "test_a_join_with_a_small_table_leaves_files_out": 3,
        "test_partitions_of_every_type_prune_and_give_exact_values": 5,
    },
    "tests/spark/backends/test_shared_files.py": {
        "test_rows_of_one_file_go_to_the_commits_that_took_them": 2,
    },
    "tests/spark/backends/test_variants.py": {
        "test_rows_with_variants_are_deleted_updated_and_merged": 2,
    },
    "tests/spark/columns/test_constraints.py": {
        "test_one_bad_row_of_many_stops_every_writer": 2,
    },
    "tests/spark/columns/test_text_lengths.py": {
        "test_every_writer_pads_cuts_and_refuses": 3,
    },
    "tests/spark/columns/test_zones.py": {
        "test_every_statement_takes_them_for_those_of_the_session": 2,
        "test_every_verb_takes_them_for_those_of_the_session": 2,
    },
    "tests/spark/entry/test_bad_input.py": {
        "test_columns_named_like_ours_hold_what_the_user_put_there": 2,
    },
    "tests/spark/entry/test_by_name.py": {
        "test_every_door_of_a_write_makes_the_same_versions": 2,
    },
    "tests/spark/entry/test_changes.py": {
        "test_changes_equal_those_of_the_arrow_backend": 2,
    },
    "tests/spark/entry/test_feed.py": {
        "test_a_column_that_was_dropped_then_is_null": 4,
        "test_the_format_reads_changes_by_options": 3,
        "test_windows_of_a_history_have_the_rows_of_the_model": 2,
    },
    "tests/spark/entry/test_pipe.py": {
        "test_killed_at_the_commit_and_run_again": 4,
    },
    "tests/spark/s3/test_native.py": {
        "test_a_table_is_written_in_place_and_read_back": 2,
    },
    "tests/spark/statements/test_cells.py": {
        "test_a_cell_with_an_update_of_sparks": 3,
    },
    "tests/spark/statements/test_compiled_code.py": {
        "test_a_delete_takes_the_rows_that_a_query_finds": 5,
        "test_the_next_statement_with_other_numbers_compiles_nothing": 2,
    },
    "tests/spark/statements/test_dml.py": {
        "test_a_task_that_fails_once_leaves_no_row_twice": 3,
        "test_copy_on_write_leaves_no_deletion_vector": 2,
    },
    "tests/spark/statements/test_dml_sql.py": {
        "test_delete_with_any_condition": 3,
    },
    "tests/spark/statements/test_failed_commits.py": {
        "test_a_statement_that_loses_a_race_leaves_nothing": 3,
        "test_a_statement_whose_outcome_is_unknown_keeps_all": 4,
        "test_a_statement_with_unknown_reads_leaves_no_file": 3,
    },
    "tests/spark/statements/test_shapes.py": {
        "test_a_shape_of_plan_gives_the_rows_of_the_model": 3,
    },
    "tests/spark/streams/test_sink.py": {
        "test_a_batch_that_is_repeated_is_applied_already": 2,
        "test_another_batch_under_a_used_number_is_refused": 2,
    },
    "tests/spark/streams/test_source.py": {
        "test_a_feed_of_a_random_history_is_that_of_the_model": 2,
    },
    "tests/spark/streams/test_source_log.py": {
        "test_a_feed_of_a_random_history_is_that_of_the_model": 2,
    },
    "tests/system/faults/test_compaction_faults.py": {
        "test_killed_at_any_request_all_rows_are_there": 2,
    },
    "tests/system/faults/test_crash.py": {
        "test_sigkill_at_any_request_on_a_local_disk_leaves_all_or_nothing": 2,
    },
    "tests/system/faults/test_retention_killed.py": {
        "test_stopped_at_any_request_it_harms_nothing": 2,
    },
    "tests/system/simulation/test_rules_under_faults.py": {
        "test_any_two_statements_under_any_two_faults": 2,
    },
    "tests/system/transactions/test_cells_file_and_row.py": {
        "test_a_cell_of_granularities_file_and_row": 3,
        "test_an_overwrite_that_commits_later_replaces_what_is_there_then": 3,
    },
    "tests/system/transactions/test_cells_transaction.py": {
        "test_a_cell_of_granularity_transaction": 3,
    },
    "tests/system/transactions/test_compaction_chains.py": {
        "test_no_row_comes_back_and_none_is_lost": 3,
    },
    "tests/system/transactions/test_own_rows.py": {
        "test_rows_of_the_table_that_others_changed_since_are_no_source": 3,
    },
    "tests/system/transactions/test_random_histories.py": {
        "test_a_broken_rule_is_caught": 2,
        "test_histories_of_many_transactions_are_explained": 2,
        "test_random_histories_are_explained": 2,
    },
    "tests/system/transactions/test_rebase_requests.py": {
        "test_rounds_of_rivals_cost_their_entries_and_no_data_file": 2,
    },
    "tests/table/test_special_names.py": {
        "test_every_verb_takes_every_name": 2,
    },
    "tests/table/test_stale_handles.py": {
        "test_every_other_write_by_a_stale_handle_goes_by_the_newest_schema": 2,
    },
}
"""Functions with many or long parameters: each change runs one in so many, the soak all.

The choice is by a hash of the parameters: it is the same in every run.
"""


class OneSession(LoadFileScheduling):  # type: ignore[misc, unused-ignore]
    """Distributes whole files.

    All that use the session are one piece, and so are those with Connect.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = path_of(nodeid)
        if rank(path) == 0:
            return SESSION
        return CONNECT if path.startswith(CONNECT) else path


def leave_to_the_soak(items: list[pytest.Item]) -> None:
    """Mark the parameters of SHARES that only the soak runs. Each function keeps at least one."""
    functions = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    shares = ((f"{file}::{name}", n) for file, of in SHARES.items() for name, n in of.items())
    for name, share in shares:
        asked = sorted(functions[name], key=lambda item: crc32(item.nodeid.encode()))
        kept = -(-len(asked) // share)
        for item in asked[kept:]:
            item.add_marker("soak")


def without_address(value: object) -> str:
    """Return a text of a value for `ids=`, the same in every process."""
    return str(value).partition(ADDRESS)[0][:60]


def path_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@cache
def rank(path: str) -> int:
    """Return the position of a file in the order of a run. Files with the session come first."""
    for place, beginning in enumerate(LONG, 1):
        if path.startswith(beginning):
            return place
    return 0 if path.startswith(SESSION) else len(LONG) + 1
