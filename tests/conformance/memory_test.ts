import { MemoryLock } from "../../memory/memory_lock.ts";
import type { Harness } from "../../testing/conformance/harness.ts";
import { conformance } from "../../testing/conformance/suite.ts";

const memory: Harness = {
  name: "memory",
  capabilities: {
    fifo: "global",
    endsBy: "release",
    steal: true,
    attach: false,
    shared: true,
    limit: true,
    list: true,
  },
  processes: false,
  ttlMs: Infinity,
  knowsWaitersOfTry: true,
  start: () => Promise.resolve(),
  stop: () => Promise.resolve(),
  arena() {
    // A memory lock excludes callers of the same instance, so all clients share one.
    const opened: MemoryLock[] = [];
    return Promise.resolve({
      client(options = {}) {
        const { label, onWarning, disposeTimeoutMs } = options;
        opened[0] ??= new MemoryLock({ label, onWarning, disposeTimeoutMs });
        return Promise.resolve(opened[0]);
      },
      async lose(lease) {
        await opened[0]!.request(lease.name, { steal: true }, () => {});
      },
      residue: () => Promise.resolve([]),
      spec() {
        throw new Error("Memory is not shared with other processes");
      },
      async [Symbol.asyncDispose]() {
        await opened[0]?.[Symbol.asyncDispose]();
      },
    });
  },
};

conformance(memory);
