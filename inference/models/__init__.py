"""Where models come from: catalogue, downloads, file formats, conversion. No torch at import time."""
