/** A catalog of two files that many read and one renews. */
import { assert, assertEquals } from "@std/assert";
import { type DistributedLock, type Lease, MemoryLock } from "../../mod.ts";
import { readCatalog, writeCatalog } from "../../examples/readers.ts";
import { filePlace, startProgram } from "../../testing/examples/programs.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

Deno.test("examples/readers.ts never reads a torn catalog, and readers read side by side", async () => {
  await using place = await filePlace();
  await using locks = new MemoryLock();
  let most = 0;
  // Counts the holders of each call.
  const counted = {
    capabilities: locks.capabilities,
    request: (name: string, ...args: unknown[]) => {
      const callback = args.at(-1) as (lease: Lease) => unknown;
      const options = args.length === 1 ? {} : args[0] as object;
      return locks.request(name, options, async (lease) => {
        const { holders, holderCount } = await locks.query(name);
        most = Math.max(most, holderCount);
        assert(holderCount === 1 || holders.every(({ mode }) => mode === "shared"));
        return await callback(lease!);
      });
    },
  } as unknown as DistributedLock;
  let isDone = false;
  const readers = Array.from({ length: 10 }, async () => {
    const versions: number[] = [];
    while (!isDone) versions.push(await readCatalog(counted, place.dir));
    return versions;
  });
  let last = 0;
  for (let i = 0; i < 10; i++) last = await writeCatalog(counted, place.dir);
  isDone = true;
  for (const versions of await Promise.all(readers)) {
    assertEquals(versions, versions.toSorted((a, b) => a - b));
  }
  assertEquals(await readCatalog(counted, place.dir), last);
  assert(most > 1, "several readers at the same time");
});

Deno.test("examples/readers.ts runs with locks in files, which have no shared mode", async () => {
  await using place = await filePlace();
  const dir = ["--dir", `${place.dir}/catalog`, "--every-ms", "20"];
  await using writer = startProgram("readers.ts", place, "--write", ...dir);
  const version = await writer.saying("Wrote ");
  await using reader = startProgram("readers.ts", place, ...dir);
  await waitUntil("it reads what was written", () => {
    return reader.lines.some((line) => Number(line.slice("Read ".length)) >= Number(version));
  });
});
