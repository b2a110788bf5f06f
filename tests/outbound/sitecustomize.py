"""Python loads this at its start from PYTHONPATH, in every process that a test begins."""

import outbound_guard

if outbound_guard.NOTES in outbound_guard.os.environ and not outbound_guard.is_pip():
    outbound_guard.arm()
