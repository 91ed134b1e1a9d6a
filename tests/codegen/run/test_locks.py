"""Locks in a process that is forked while another thread holds them."""

import multiprocessing
import os
import threading
import time

import pytest

import jitgrad
from jitgrad.codegen.llvm import engine

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked")


@jitgrad.script
def scaled(x, k: int):
    return x * k


def compile_in_child() -> None:
    assert scaled(jitgrad.ones(1), 3).item() == 3.0


def fork() -> int:
    child = multiprocessing.get_context("fork").Process(target=compile_in_child)
    child.start()
    child.join(60)
    if child.is_alive():
        child.kill()
    return child.exitcode or 0


@pytest.mark.filterwarnings("ignore:This process")  # Python's own, of threads and forks
def test_a_child_compiles_what_a_thread_of_its_parent_was_compiling() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with scaled._lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert fork() == 0
    finally:
        done.set()
        thread.join()


@pytest.mark.filterwarnings("ignore:This process")
def test_a_fork_waits_for_the_compiler() -> None:
    held = threading.Event()

    def hold() -> None:
        with engine.lock:
            held.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert fork() == 0
    thread.join()
