"""Everything about rows and files that must survive."""
