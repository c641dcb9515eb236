"""What people run: results with their tables, the command line, the playground."""
