"""Looking after a table. Each module plans in pure code, and then acts."""
