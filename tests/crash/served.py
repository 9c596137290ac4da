"""`xlda`, with what the variable CRASH_TEST says changed in it: intervals, limits, or a deliberate mistake.

    CRASH_TEST='{"set": {"xlda.service.engine.LOOK": 0.05}}' python served.py serve shop.xlda

The kills themselves come from outside, or from the service's own fault points.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import time
from pathlib import Path

PAGES = Path("most-pages")  # a file with how many pages the database may have
FAILING = Path("sync-fails")  # while it is there, no file can be synced
SLOW = 0.03  # seconds that a commit takes where it comes after the answer, as on a slow card


def set_constant(name, value):
    module, _, constant = name.rpartition(".")
    found = importlib.import_module(module)
    assert hasattr(found, constant), name
    setattr(found, constant, value)


def limit_pages():
    """The database may have as many pages as a file says, which is looked at before each commit."""
    from xlda.service.writer import Writer

    check = Writer._check_can_write

    def limited_check(self):
        most = int(PAGES.read_text()) if PAGES.exists() else 1 << 30
        self._db.pragma("max_page_count", most)
        check(self)

    Writer._check_can_write = limited_check


def fail_syncs():
    """The service's files are those of a disk that may fail."""
    import apsw

    from xlda.service import server

    class File(apsw.VFSFile):
        def __init__(self, name, flags):
            super().__init__("", name, flags)

        def xSync(self, flags):  # noqa: N802
            if FAILING.exists():
                raise apsw.IOError("the disk has failed")
            super().xSync(flags)

    class Disk(apsw.VFS):
        def __init__(self):
            super().__init__("failing", "")

        def xOpen(self, name, flags):  # noqa: N802
            return File(name, flags)

    disk = Disk()
    server.serve = functools.partial(server.serve, vfs="failing")
    server.disk_of_the_test = disk  # which lives as long as the module


def acknowledge_early():
    """A mistake: changes are answered before they are committed."""
    from xlda.service import writer

    written = writer.Writer._written

    def written_and_told(self, wanted, changes, events):
        answer = written(self, wanted, changes, events)
        writer._tell([(wanted, answer)])
        time.sleep(SLOW)
        return answer

    writer.Writer._written = written_and_told


def small_backbone():
    """In place of a network: the mean colours of the four quarters of a photo."""
    import numpy as np

    from xlda.identity import BackboneIdentity
    from xlda.service import server

    class Backbone:
        name, n_features, least_side = "quarters", 12, 16
        identity = BackboneIdentity.of("quarters", 64 * "a", {}, width=12, preprocessing_version=1)

        def prepare(self, image):
            return np.asarray(image.resize((2, 2)), np.float32)

        def embed_here(self, pixels):
            return pixels.reshape(len(pixels), -1) / 255 - 0.5

        def embed_one(self, image):
            return self.embed_here(self.prepare(image)[None])[0]

    class ModelBackbone:
        def __init__(self, *_):
            pass

        def get(self, *_):
            return Backbone()

    server.ModelBackbone = ModelBackbone


CHANGES = {
    "limit pages": limit_pages,
    "fail syncs": fail_syncs,
    "acknowledge early": acknowledge_early,
    "small backbone": small_backbone,
}


def run():
    """Change what CRASH_TEST says, then be the command."""
    wanted = json.loads(os.environ.pop("CRASH_TEST", "{}"))
    for name, value in wanted.get("set", {}).items():
        set_constant(name, value)
    for name in wanted.get("change", []):
        CHANGES[name]()
    from xlda.cli import main

    main()


if __name__ == "__main__":
    run()
