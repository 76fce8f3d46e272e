"""Only the machine: threads, memory, files."""
