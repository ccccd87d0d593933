"""What users and Spark call."""
