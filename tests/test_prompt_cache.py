"""The prompt cache survives clearing: the simulation of the benchmark, held to what the docs say."""

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parent / "benchmarks/bench_prompt_cache.py"


@pytest.fixture(scope="module")
def bench():
    """The benchmark as a module."""
    spec = importlib.util.spec_from_file_location("bench_prompt_cache", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_recommended_settings_keep_the_prefix_and_the_budget(bench: ModuleType) -> None:
    """200 turns: at most 6 broken prefixes and 1.6 M billed under both kinds of cache, never over the budget."""
    bill = asyncio.run(bench.run_ours(bench.RECOMMENDED))

    assert bill.breaks <= 6
    assert bill.prefix_billed <= 1_600_000
    assert bill.whole_billed <= 1_600_000
    assert bill.largest <= bench.BUDGET
    assert bill.whole_results >= 19


def test_a_raw_history_costs_the_same(bench: ModuleType) -> None:
    """A framework that does not keep the edits pays exactly what one pays that does."""
    kept = asyncio.run(bench.run_ours(bench.RECOMMENDED))

    assert asyncio.run(bench.run_ours(bench.RECOMMENDED, raw=True)) == kept
