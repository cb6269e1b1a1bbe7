import { FakeLock } from "../../fake/fake_lock.ts";
import type { Harness } from "../../testing/conformance/harness.ts";
import { conformance } from "../../testing/conformance/suite.ts";
import { KEPT_TTL_MS } from "../../testing/time.ts";

const fake: Harness = {
  name: "fake",
  capabilities: {
    fifo: "global",
    endsBy: "ttl",
    steal: true,
    attach: false,
    shared: true,
    limit: true,
    list: false,
  },
  processes: false,
  ttlMs: KEPT_TTL_MS,
  knowsWaitersOfTry: true,
  start: () => Promise.resolve(),
  stop: () => Promise.resolve(),
  arena() {
    // A fake lock excludes callers of the same instance, so all clients share one.
    const opened: FakeLock[] = [];
    return Promise.resolve({
      client(options = {}) {
        opened[0] ??= new FakeLock({ ttlMs: KEPT_TTL_MS, ...options });
        return Promise.resolve(opened[0]);
      },
      lose({ name }) {
        opened[0]!.holdElsewhere(name, { steal: true }).release();
        return Promise.resolve();
      },
      residue: () => Promise.resolve([]),
      spec() {
        throw new Error("A fake lock is not shared with other processes");
      },
      async [Symbol.asyncDispose]() {
        await opened[0]?.[Symbol.asyncDispose]();
      },
    });
  },
};

conformance(fake);
