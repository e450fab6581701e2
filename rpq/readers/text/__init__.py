"""Lines of text to columns: layouts, quotes, times, JSON, the fast way and the exact one."""
