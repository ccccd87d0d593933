"""Tables as sources and sinks of Spark's streams. Spec: STR."""
