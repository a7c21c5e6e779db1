"""Used by all other rooms: argument checks, errors, files, records, the runtime."""
