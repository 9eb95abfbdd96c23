"""Benchmarks are run by hand and seldom: they begin, at least."""

import importlib
import pkgutil

import pytest

import benchmarks

EVERY = [module.name for module in pkgutil.iter_modules(benchmarks.__path__)]


@pytest.mark.parametrize("name", EVERY)
def test_what_a_benchmark_uses_is_still_there(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    assert name.startswith("_") or callable(module.main)
