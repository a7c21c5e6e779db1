"""Used by all other rooms: argument checks, errors, files, records, signals, the runtime."""
