"""The bench: the same work for Ondol and a peer, taking turns. Torch-free, on the caller's thread."""
