"""How the process of a service has memory and cores, seen in processes of their own."""

import subprocess
import sys

import pytest

pytest.importorskip("apsw", reason="needs the extra serve")

BLOCKS = """
import sys
import numpy as np
from xlda.service.memory import give_back_what_is_large

def resident():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * 4096 / 1e6

if sys.argv[1] == "set":
    give_back_what_is_large()
np.ones(4_000_000)  # 32 MB, freed at once: glibc takes blocks of up to that size for its own from now on
before = resident()
blocks = [np.ones(1_000_000) for _ in range(20)]  # 160 MB
last = np.ones(1_000_000)
del blocks
print(resident() - before)
"""

THREADS = """
import threadpoolctl
import numpy
from xlda.service.server import leave_cores

leave_cores()
import scipy.linalg
print(*(pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"))
"""


def _printed(script: str, *arguments: str) -> str:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_large_blocks_are_given_back_even_below_one_that_is_in_use() -> None:
    assert float(_printed(BLOCKS, "set")) < 20


def test_the_blas_of_a_service_has_one_thread_also_where_it_is_loaded_later() -> None:
    found = _printed(THREADS).split()
    assert found
    assert set(found) == {"1"}
