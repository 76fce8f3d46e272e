"""Everything that knows only the machine: threads, memory, files, progress bars."""
