"""Everything about people: pages, sockets, access and the command line."""
