"""Conversations as files: written in Ondol's own format, and read from that and from other programs' exports.

Nothing here runs on the event loop.
"""
