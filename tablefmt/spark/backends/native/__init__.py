"""Native backend: Spark reads and writes the data files itself."""
