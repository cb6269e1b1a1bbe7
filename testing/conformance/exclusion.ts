/**
 * Behaviours: a lock has one holder at a time, and names are independent.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { readFile, rm, writeFile } from "node:fs/promises";
import process from "node:process";
import { setImmediate } from "node:timers/promises";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { type Arena, behaviour, type Harness } from "./harness.ts";
import { startContender } from "./process.ts";
import { within } from "./bounds.ts";

/** Names that a careless strategy would confuse, truncate or reject. */
const NAMES = [
  "a",
  "A",
  "a ",
  " a",
  "a/b",
  "a/b/",
  "/",
  ".",
  "..",
  "../a",
  "a%2Fb",
  "%",
  "a#b",
  "{a}",
  "{}",
  "}",
  "}{",
  "{",
  "{a}b}",
  "-a",
  "*",
  "a*",
  "[a]",
  "a\nb",
  "a\0b",
  "\u007f",
  "é",
  "e\u0301",
  "ß",
  "日本語",
  "😀",
  "\uffff",
  "\ud83d\ude00\u200d",
  "zookeeper",
  "lock-0000000001",
  "constructor",
  "__proto__",
  "x".repeat(1_000),
  "y".repeat(999) + "é",
  "y".repeat(999) + "è",
  "😀".repeat(500),
  "/".repeat(1_000),
];

/** More calls than a client can have under way at once. The soak runs the full figure. */
const BURST = process.env["HOLDFAST_SOAK"] ? 10_000 : 300;
/** Each lock of some strategies needs an open file. */
const BURST_WITHOUT_TTL = 300;

/** Counts the callers inside and keeps the maximum. */
function gauge() {
  let inside = 0;
  return {
    most: 0,
    async visit() {
      this.most = Math.max(this.most, ++inside);
      await setImmediate();
      inside--;
    },
  };
}

async function contend(arena: Arena, clients: number, perClient: number): Promise<number> {
  const locks = await Promise.all(Array.from({ length: clients }, () => arena.client()));
  const room = gauge();
  const visits = locks.flatMap((lock) =>
    Array.from({ length: perClient }, async () => {
      await using lease = await lock.acquire("room");
      lease.throwIfLost();
      await room.visit();
    })
  );
  await within("all contenders have had the lock", Promise.all(visits));
  return room.most;
}

/** Registers the behaviours. */
export function exclusionSuite(harness: Harness): void {
  behaviour(
    harness,
    "tryAcquire() returns null while another client holds the lock",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      await using lease = await a.acquire("n");
      assertEquals(await b.tryAcquire("n"), null);
      lease.throwIfLost();
    },
  );

  behaviour(harness, "capabilities are those that the strategy promises", async (arena) => {
    assertEquals((await arena.client()).capabilities, harness.capabilities);
  });

  behaviour(
    harness,
    "tryAcquire() returns null on the instance that already holds the lock",
    async (arena) => {
      const lock = await arena.client();
      await using _lease = await lock.acquire("n");
      assertEquals(await lock.tryAcquire("n"), null);
    },
  );

  behaviour(
    harness,
    "tryAcquire() treats every well-formed Unicode name as a separate lock",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const leases = [];
      for (const name of NAMES) {
        const lease = await a.tryAcquire(name);
        assert(lease !== null, `${JSON.stringify(name.slice(0, 40))} is taken by another name`);
        assertEquals(lease.name, name);
        leases.push(lease);
      }
      for (const name of NAMES) assertEquals(await b.tryAcquire(name), null);
      for (const lease of leases) assertEquals(await lease.release(), true);
      for (const name of NAMES) assertEquals((await b.query(name)).holders, []);
    },
  );

  const burst = harness.ttlMs === Infinity ? BURST_WITHOUT_TTL : BURST;
  for (const method of ["acquire", "tryAcquire"] as const) {
    behaviour(
      harness,
      `${method}() takes many free locks at once, keeps a held lease, and works afterwards`,
      async (arena) => {
        const lock = await arena.client();
        await using held = await lock.acquire("held");
        const names = Array.from({ length: burst }, (_, i) => `free-${i}`);
        const calls = Promise.all(names.map((name) => lock[method](name)));
        const leases = await within("all calls have ended", calls);
        for (const lease of leases) lease!.throwIfLost();
        const released = await Promise.all(leases.map((lease) => lease!.release()));
        assertEquals(released.filter((isOurs) => !isOurs), []);
        held.throwIfLost();
        await (await lock.acquire("after")).release();
      },
    );
  }

  behaviour(harness, "acquire() lets one of 100 contenders in at a time", async (arena) => {
    assertEquals(await contend(arena, 10, 10), 1);
  });

  behaviour(harness, "acquire() prevents lost updates between processes", async (arena) => {
    const spec = arena.spec();
    const directory = await makeTempDirectory();
    const file = `${directory}/count`;
    await writeFile(file, "0");
    try {
      const task = { do: "count", name: "n", file, contenders: 5, rounds: 5 } as const;
      const processes = [1, 2, 3].map(() => startContender(spec, task));
      try {
        for (const process of processes) {
          assertEquals(await within("the process has finished", process.line()), "done");
          assertEquals(await process.end(), 0);
        }
      } finally {
        for (const process of processes) await process[Symbol.asyncDispose]();
      }
      assertEquals(await readFile(file, "utf8"), "75");
    } finally {
      await rm(directory, { recursive: true });
    }
  }, harness.processes);
}
