"""What all tests share: a seed, a cold kernel cache of the session's own, Hypothesis' profile."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import proofs
from tests import machine_code

# The example of a plug-in is no installed package here.
sys.path.append(str(Path(__file__).parents[1] / "examples" / "plugin_backend"))

CACHE_VARIABLE = "PHIX_CACHE_DIR"

# All programs of the tests, those of other processes too, are verified between all passes.
os.environ.setdefault("PHIX_VERIFY", "1")

# A fault of phix is found by the frames inside it.
os.environ.setdefault("PHIX_TRACEBACK", "full")

# How quickly a machine draws numbers beside other work says nothing of phix.
settings.register_profile(
    "phix",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("phix")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("phix")
    group.addoption("--seed", type=int, default=0, help="seed of all test data (0)")
    group.addoption(
        "--place",
        default="cpu",
        help="make all tensors of the tests there: cpu, gpu, npu (the plug-in of examples/), or "
        "another that a module given by -p registers",
    )
    group.addoption(
        "--kernel-cache",
        metavar="DIR",
        help="keep compiled kernels there between runs (default: a fresh folder)",
    )
    group.addoption(
        "--optimise", action="store_true",
        help="let LLVM do all it can for every test, those marked unoptimised too",
    )  # fmt: skip
    group.addoption(
        "--code", default="llvm", choices=["llvm", "numba", "python"],
        help="what programs of the CPU are printed as: numba is Numba source, compiled; python the "
        "same, run by Python",
    )  # fmt: skip
    proofs.add_options(group)


@pytest.fixture(autouse=True)
def place(request: pytest.FixtureRequest) -> Iterator[object]:
    """The place of the run, where tensors are made inside each test."""
    import phix

    name = request.config.getoption("--place")
    if name.startswith("npu"):
        import phix_npu

        phix_npu.ensure_registered()
    with phix.device(name) as here:
        yield here
    if "cupy" in sys.modules:
        _end_if_the_gpu_is_lost(request.config)


def _end_if_the_gpu_is_lost(config: pytest.Config) -> None:
    """After an illegal address no call of this process reaches the GPU any more: leave it.

    xdist reports the test as one that crashed its worker, and goes on in a new one.
    """
    try:
        sys.modules["cupy"].cuda.runtime.deviceSynchronize()
    except Exception as error:
        if _is_worker(config):
            os._exit(1)
        pytest.exit(f"the GPU is lost to this process: {error}", returncode=1)


@pytest.fixture(autouse=True)
def machine_code_of_the_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test marked ``unoptimised`` has LLVM do little."""
    code = request.config.getoption("--code")
    if code != "llvm":
        from tests import numba_code

        with numba_code.in_place_of_llvm(code == "python"):
            yield
    elif machine_code.is_optimised(request.node):
        yield
    else:
        with machine_code.unoptimised(bool(request.node.get_closest_marker("each_pass"))):
            yield


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    if _is_worker(config):
        config.option.prove_seed = config.workerinput["prove_seed"]
        return  # xdist's workers inherit the folder, so a kernel is compiled once a session
    proofs.settle(config)
    kept = config.getoption("--kernel-cache")
    folder = os.path.abspath(kept) if kept else tempfile.mkdtemp(prefix="phix-test-cache-")
    config.stash[_folder] = (folder, bool(kept))
    os.environ[CACHE_VARIABLE] = folder


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """What xdist tells its workers beside the command line."""
    node.workerinput["prove_seed"] = node.config.option.prove_seed


_folder = pytest.StashKey[tuple[str, bool]]()
_ran = pytest.StashKey[int]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.scheduling import Scheduling

    return Scheduling(config, log)


def pytest_unconfigure(config: pytest.Config) -> None:
    folder, kept = config.stash.get(_folder, ("", True))
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_report_header(config: pytest.Config) -> list[str]:
    kept = config.getoption("--kernel-cache")
    state = f"kept in {kept}" if kept else "cold"
    line = f"phix: seed {config.getoption('--seed')}, kernel cache {state}"
    return [line, *proofs.header(config)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    proofs.choose(config, items)


TESTS_BETWEEN_FREEZES = 200
COLLECTOR = (20_000, 50, 50)  # thresholds: between the freezes Python looks around little


def pytest_collection_finish() -> None:
    """Tests that collect garbage look for their own: not among all that was made for 20,000 tests,
    of which nothing goes before the end of the run. Nor among what earlier tests have left, the
    programs and plans that phix keeps; see ``pytest_runtest_protocol``."""
    gc.freeze()
    gc.set_threshold(*COLLECTOR)


def pytest_runtest_setup(item: pytest.Item) -> None:
    proofs.begin(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with proofs.timed(item):
        yield
    ran = item.config.stash[_ran] = item.config.stash.get(_ran, 0) + 1
    if ran % TESTS_BETWEEN_FREEZES == 0:
        gc.collect()
        gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    for line in proofs.summary(reports):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of the run, for data that depends on more than the test's name."""
    return int(request.config.getoption("--seed"))


@pytest.fixture
def rng(request: pytest.FixtureRequest, seed: int) -> np.random.Generator:
    """A generator seeded by the run's seed and the test's name."""
    return np.random.default_rng([seed, zlib.crc32(request.node.nodeid.encode())])


@pytest.fixture(autouse=True, scope="session")
def nothing_learnt_before() -> Iterator[None]:
    """No test knows which sizes varied in another, or in an earlier run."""
    from phix.api.sizes import Sizes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sizes, "_key", lambda self, call: None)
        yield


@pytest.fixture(autouse=True)
def same_numbers(request: pytest.FixtureRequest) -> None:
    """A test draws the same numbers from its file's generator, whatever ran before it."""
    for name in ("RNG", "rng"):
        if isinstance(getattr(request.module, name, None), np.random.Generator):
            setattr(request.module, name, np.random.default_rng(0))
