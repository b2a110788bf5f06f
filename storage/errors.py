"""What can go wrong in `storage`.

StorageError                the database cannot be read or written; nothing was acknowledged
├── NotWritable             nothing can be written now, which may pass
│   └── DiskFull            since there is no room
├── UnusableFolder          the data folder cannot be made, read or written
├── DamagedDatabase         the file is not a sound database
├── SchemaTooNew            a newer version of Ondol wrote it; nothing was changed
└── UnsafeSQLite            the SQLite library at hand can corrupt a WAL database
NotFound                    no such conversation, message, preset, person or device
NotAllowed                  somebody else's, who lets others see it but not do that
TooManyDevices              as many devices are let in as may be; nothing was changed
ImportRefused               a file, or a conversation in it, that is not taken; nothing of it was kept
Conflict                    the same client id came again with another body
TooShort                    what is searched for is in nearly every message
"""

from __future__ import annotations


class StorageError(Exception):
    """The database cannot do what was asked."""


class NotWritable(StorageError):
    """The disk fails, the file is read-only, or another program holds it."""


class DiskFull(NotWritable):
    """There is no room on the disk."""


class UnusableFolder(StorageError):
    """The data folder cannot be used."""


class DamagedDatabase(StorageError):
    """The database file is damaged or is not a database."""


class SchemaTooNew(StorageError):
    """The database was written by a newer version."""


class UnsafeSQLite(StorageError):
    """The SQLite library has the WAL-reset corruption bug."""


class NotFound(Exception):
    """Nothing answers to that id."""


class NotAllowed(Exception):
    """Only another person may do that."""


class TooManyDevices(Exception):
    """No further device is let in."""


class Conflict(Exception):
    """A client id was used again for something else."""


class TooShort(Exception):
    """Nothing can be searched for with so little."""


class ImportRefused(Exception):
    """A file, or a conversation in it, cannot be imported."""
