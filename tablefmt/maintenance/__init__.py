"""Table maintenance. Each module plans in pure code, and then acts."""
