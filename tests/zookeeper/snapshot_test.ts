/** What `query()` makes of a queue, also where other tools have made the znodes, or some leave meanwhile. */
import { assertEquals } from "@std/assert";
import { MAX_LABEL_LENGTH } from "../../core/contract/options.ts";
import type { LockMode } from "../../mod.ts";
import { refusal } from "../../testing/zookeeper/fake_zookeeper.ts";
import { entryPrefix } from "../../zookeeper/recipe/queue_order.ts";
import type { Session } from "../../zookeeper/session/session.ts";
import { readSnapshot } from "../../zookeeper/snapshot.ts";

/** Reads a queue. An entry whose data are `null` is deleted after the listing. */
async function read(
  entries: readonly (readonly [mode: LockMode, data: string | Uint8Array | null])[],
  maxWaiters = 64,
) {
  const names = entries.map(([mode], sequence) =>
    `${entryPrefix("a", mode)}${String(sequence).padStart(10, "0")}`
  );
  let reads = 0;
  const session = {
    children: () => Promise.resolve({ names, pzxid: 0n }),
    get(path: string) {
      reads++;
      const sequence = Number(path.slice(-10));
      const data = entries[sequence]![1];
      if (data === null) return Promise.reject(refusal("NO_NODE"));
      const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
      return Promise.resolve({ data: bytes, czxid: BigInt(sequence) });
    },
  } as unknown as Session;
  const snapshot = await readSnapshot(session, "n", "/locks/n", maxWaiters);
  return { snapshot, reads };
}

Deno.test("readSnapshot() shows a label only where the data are a short text", async () => {
  const longest = "x".repeat(MAX_LABEL_LENGTH);
  const { snapshot } = await read([
    ["exclusive", "holder"],
    ["exclusive", Uint8Array.of(0xff)],
    ["exclusive", ""],
    ["shared", longest],
    ["exclusive", `${longest}x`],
  ]);
  assertEquals(snapshot, {
    name: "n",
    holders: [{ mode: "exclusive", label: "holder", fencingToken: 0n }],
    holderCount: 1,
    waiters: [
      { mode: "exclusive" },
      { mode: "exclusive" },
      { mode: "shared", label: longest },
      { mode: "exclusive" },
    ],
    waiterCount: 4,
  });
});

Deno.test("readSnapshot() reads as many waiters as it is asked for, and leaves out what was deleted", async () => {
  const queue = [["exclusive", null], ["exclusive", "b"], ["exclusive", "c"]] as const;
  const all = await read(queue);
  assertEquals(all.snapshot.holders, [{ mode: "exclusive", label: "b", fencingToken: 1n }]);
  assertEquals(all.snapshot.waiters, [{ mode: "exclusive", label: "c" }]);
  assertEquals([all.snapshot.waiterCount, all.reads], [1, 3]);
  const none = await read(queue, 0);
  assertEquals(none.snapshot.holders, [{ mode: "exclusive" }], "the next one was not read");
  assertEquals([none.snapshot.waiters, none.snapshot.waiterCount, none.reads], [[], 1, 1]);
  const long = await read(Array.from({ length: 6 }, () => ["exclusive", "x"] as const), 2);
  assertEquals([long.snapshot.waiters.length, long.snapshot.waiterCount, long.reads], [2, 5, 3]);
});

Deno.test("readSnapshot() lists the waiters behind any number of shared holders", async () => {
  for (const holders of [64, 65, 128, 300]) {
    const { snapshot, reads } = await read([
      ...Array.from({ length: holders }, () => ["shared", "reader"] as const),
      ["exclusive", "writer"],
      ["shared", "next"],
    ]);
    assertEquals([snapshot.holders.length, snapshot.holderCount], [64, holders]);
    assertEquals(snapshot.waiters.map(({ label }) => label), ["writer", "next"], `${holders}`);
    assertEquals([snapshot.waiterCount, reads], [2, 66]);
  }
});
