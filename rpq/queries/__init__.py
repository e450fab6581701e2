"""What users ask, in Python and in files."""
