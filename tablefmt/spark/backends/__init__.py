"""Execution backends, which read and write data files: native Spark, or Arrow in its workers."""
