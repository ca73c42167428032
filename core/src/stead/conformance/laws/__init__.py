"""The laws, one file a verb."""
