"""Backends: the computation behind the engine. Importing this package imports none of them."""
