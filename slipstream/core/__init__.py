"""What everything else stands on: argument checks, the runtime, records."""
