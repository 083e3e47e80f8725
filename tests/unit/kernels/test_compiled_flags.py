"""Whether arithmetic may be reordered is said by each kernel, and not by whoever is compiled first."""

import importlib
import pkgutil

import pytest
from numba.core.registry import CPUDispatcher

import recoup.kernels

KERNELS = [
    kernel
    for module in pkgutil.iter_modules(recoup.kernels.__path__, "recoup.kernels.")
    for kernel in vars(importlib.import_module(module.name)).values()
    if isinstance(kernel, CPUDispatcher)
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.py_func.__name__)
def test_every_kernel_says_whether_arithmetic_may_be_reordered(kernel):
    assert "fastmath" in kernel.targetoptions
