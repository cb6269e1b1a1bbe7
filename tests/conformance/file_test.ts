import { lockPath } from "../../file/directory.ts";
import { makeArena } from "../../testing/conformance/arena.ts";
import type { Harness } from "../../testing/conformance/harness.ts";
import { conformance } from "../../testing/conformance/suite.ts";

/** A lock file stays, by design: unlinking it would give two holders. A lock on it must not. */
function lockedFiles(dir: string): string[] {
  const names = Array.from(Deno.readDirSync(dir), ({ name }) => name);
  return names.filter((name) => {
    using file = Deno.openSync(`${dir}/${name}`, { read: true, write: true });
    return !file.tryLockSync(true);
  });
}

const file: Harness = {
  name: "file",
  capabilities: {
    fifo: "process",
    endsBy: "process-death",
    steal: false,
    attach: false,
    shared: false,
  },
  processes: true,
  ttlMs: Infinity,
  start: () => Promise.resolve(),
  stop: () => Promise.resolve(),
  async arena() {
    const dir = await Deno.makeTempDir({ prefix: "holdfast-test-" });
    return makeArena({
      spec: ({ label }) => ({ strategy: "file", dir, label }),
      async lose(lease) {
        // As a clean-up of the temporary directory would: the next one makes a new file.
        await Deno.remove(lockPath(dir, lease.name));
      },
      residue: () => Promise.resolve(lockedFiles(dir)),
      close: () => Deno.remove(dir, { recursive: true }),
    });
  },
};

conformance(file);
