"""Everything about tokens, models, KV memory and the worker thread. Importing it imports no torch."""
