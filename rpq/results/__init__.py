"""Answer changes: columns of ids while kernels make them, tables of names when users get them."""
