"""Who reads and writes data files for Spark: Spark itself (native), or Arrow in its workers."""
