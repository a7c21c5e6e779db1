"""Used by all other rooms: argument checks, errors, files, locks, records, signals, the runtime."""
