"""Contends for a lock with kazoo. driver.ts describes the protocol.

Arguments: connect string, path of the lock, label, and how znodes are named: "stock", "patterns" or
"curator".
"""

import os
import sys
import threading
import time
import traceback

import kazoo
from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock

SECTION_S = 0.001
END_BOUND_S = 30


class CuratorNamedLock(Lock):
    """A kazoo lock whose znodes Curator recognises as contenders."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


def make_lock(client, path, naming):
    if naming == "curator":
        return CuratorNamedLock(client, path)
    return Lock(client, path, extra_lock_patterns=["-lock-"] if naming == "patterns" else ())


def contend(lock, record, label, stopped):
    while not stopped.is_set():
        lock.acquire()
        who = " %s %s\n" % (label, lock.node[-10:])
        os.write(record, ("enter" + who).encode())
        time.sleep(SECTION_S)
        os.write(record, ("leave" + who).encode())
        lock.release()


def cycle(lock, steps):
    # Threads share the iterator. The global interpreter lock gives each step to one thread only.
    for _ in steps:
        lock.acquire()
        lock.release()


def start(count, make_work):
    """Runs work in threads. An error ends the process."""

    def guarded(work):
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    threads = [threading.Thread(target=guarded, args=(make_work(),)) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def serve(client, path, label, naming):
    stopped = threading.Event()
    contending = []
    for line in sys.stdin:
        word, waiters, last = line.rstrip("\n").split(" ", 2)
        locks = iter([make_lock(client, path, naming) for _ in range(int(waiters))])
        if word == "contend":
            record = os.open(last, os.O_WRONLY | os.O_APPEND)

            def work():
                lock = next(locks)
                return lambda: contend(lock, record, label, stopped)

            contending += start(int(waiters), work)
        else:
            steps = iter(range(int(last)))

            def work():
                lock = next(locks)
                return lambda: cycle(lock, steps)

            start_s = time.monotonic()
            for thread in start(int(waiters), work):
                thread.join()
            print((time.monotonic() - start_s) * 1e6 / int(last), flush=True)
    stopped.set()
    for thread in contending:
        thread.join(END_BOUND_S)
        if thread.is_alive():
            # The server is gone, and kazoo would retry forever.
            os._exit(1)


def main():
    if sys.argv[1] == "--version":
        print("kazoo", kazoo.__version__)
        return
    connect_string, path, label, naming = sys.argv[1:]
    client = KazooClient(hosts=connect_string)
    client.start()
    print("ready", flush=True)
    serve(client, path, label, naming)
    client.stop()
    client.close()


main()
