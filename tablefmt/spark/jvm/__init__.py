"""Java classes of the native backend, compiled once in the driver's JVM, and JVM callbacks."""
