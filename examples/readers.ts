/**
 * A cache of several files that many processes read and one renews: start `deno run -A examples/readers.ts` as
 * often as you like, and `deno run -A examples/readers.ts --write` beside them.
 *
 * Readers hold the lock in shared mode, all at the same time. A writer holds it alone, so that no reader sees
 * one file of the old catalog and one of the new. Waiters are served in their order: readers that come one after
 * the other never keep a writer out. Where a strategy has no shared mode (files), readers take turns.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { DistributedLock } from "@holdfast/lock";
import { openLock } from "@holdfast/lock/open";

const USAGE = `Reads a catalog of two files that all processes share, again and again.
The locks are in files of this user, or where HOLDFAST_URL says.

  --write        renew the catalog instead
  --every-ms N   the pause between two reads or two writes (1000 by default)
  --dir DIR      the folder of the catalog (in the temporary directory by default)
  --help         print this text`;

const NAME = "catalog";
const FILES = ["prices.json", "stock.json"] as const;

/** Reads all files of the catalog. Returns its version; 0 if nobody has written one yet. */
export async function readCatalog(locks: DistributedLock, dir: string): Promise<number> {
  const mode = locks.capabilities.shared ? "shared" : "exclusive";
  return await locks.request(NAME, { mode }, async (lease) => {
    const versions: number[] = [];
    for (const file of FILES) {
      const text = await readFile(`${dir}/${file}`, "utf8").catch(() => `{"version":0}`);
      versions.push(JSON.parse(text).version);
    }
    lease.throwIfLost(); // else a writer may have been here in between
    if (new Set(versions).size > 1) throw new Error(`The catalog is torn: ${versions}`);
    return versions[0]!;
  });
}

/** Writes all files of the catalog, alone. Returns its version. */
export async function writeCatalog(locks: DistributedLock, dir: string): Promise<number> {
  return await locks.request(NAME, async (lease) => {
    const version = Date.now();
    for (const file of FILES) {
      lease.throwIfLost(); // a database would compare lease.fencingToken as well
      await writeFile(`${dir}/${file}`, JSON.stringify({ version }));
    }
    return version;
  });
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      write: { type: "boolean" },
      "every-ms": { type: "string", default: "1000" },
      dir: { type: "string", default: `${tmpdir()}/holdfast-catalog` },
      help: { type: "boolean" },
    },
  });
  if (values.help) return console.log(USAGE);
  await mkdir(values.dir, { recursive: true });
  await using locks = await openLock(Deno.env.get("HOLDFAST_URL") ?? "file:");
  for (;;) {
    if (values.write) console.log(`Wrote ${await writeCatalog(locks, values.dir)}`);
    else console.log(`Read ${await readCatalog(locks, values.dir)}`);
    await pause(Number(values["every-ms"]));
  }
}

if (import.meta.main) await main();
