"""Files that are written and read as a whole, and what lies in them: lines, frames, sealed content."""
