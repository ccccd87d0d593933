"""Java classes of the native backend, compiled once in the driver's JVM, and JVM callbacks.

`spark_internals` lists the parts of Spark that a new release may break.
"""
