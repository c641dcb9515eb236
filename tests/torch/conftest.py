"""PyTorch takes one thread: the matrices here are small, and every core has a process of its own."""

import importlib.util

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
