"""Used by all other rooms: argument checks, errors, files, locks, records, the runtime."""
