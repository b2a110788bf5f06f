"""The native CPU backend: kernels of our own in C (`src/`), driven through ctypes. Imports no torch."""
