"""Entry points: functions that users call, and handlers that Spark calls."""
