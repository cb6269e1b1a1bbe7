/**
 * Behaviours: shared holders beside each other, in one queue with exclusive ones, and limits.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { setImmediate } from "node:timers/promises";
import type {
  AcquireOptions,
  AttachableLock,
  AttachOptions,
  DistributedLock,
  Lease,
} from "../../mod.ts";
import { LockTimeoutError } from "../../mod.ts";
import { randomFrom } from "../processes/random.ts";
import { waitUntil } from "../servers/wait.ts";
import { FAULT_TTL_MS } from "../time.ts";
import { aborted, within } from "./bounds.ts";
import { type Arena, behaviour, type Harness } from "./harness.ts";
import { startContender } from "./process.ts";

const SHARED = { mode: "shared" } as const;

/** Makes a call that waits, as number `i` in the queue. */
async function waiting(lock: DistributedLock, i: number, options: AcquireOptions = {}) {
  let [isGranted, hasFailed] = [false, false];
  const lease = lock.acquire("n", options);
  lease.then(() => isGranted = true, () => hasFailed = true);
  await waitUntil(`${i} wait`, async () => {
    // A late machine may first look when a bounded wait has ended.
    return hasFailed || (await lock.query("n")).waiterCount === i;
  });
  return { lease, isGranted: () => isGranted };
}

async function release(...leases: (Lease | null)[]): Promise<void> {
  for (const lease of leases) assertEquals(await lease!.release(), true);
}

async function assertNotSupported(call: Promise<unknown>): Promise<void> {
  assertEquals((await assertRejects(() => call, DOMException)).name, "NotSupportedError");
}

/** Registers the behaviours. */
export function modesSuite(harness: Harness): void {
  refusals(harness);
  if (harness.capabilities.shared) {
    sharing(harness);
    order(harness);
    ends(harness);
  }
  if (harness.capabilities.limit) limits(harness);
}

function refusals(harness: Harness): void {
  const { attach, shared, limit } = harness.capabilities;
  behaviour(
    harness,
    "acquire(), tryAcquire() and request() refuse a mode or a limit that the strategy does not offer",
    async (arena) => {
      const lock = await arena.client();
      const proto = Object.create({ mode: "shared" }) as AcquireOptions;
      const refused: AcquireOptions[] = [
        ...(shared ? [] : [SHARED, proto]),
        ...(limit ? [] : [{ limit: 2 }, { ...SHARED, limit: 1 }]),
      ];
      for (const options of refused) {
        await assertNotSupported(lock.acquire("n", options));
        await assertNotSupported(lock.tryAcquire("n", options));
        await assertNotSupported(lock.request("n", options, () => {}));
      }
      assertEquals(await arena.residue(), []);
    },
    !shared || !limit,
  );

  behaviour(
    harness,
    "acquire() and attach() refuse to attach shared leases",
    async (arena) => {
      const lock = await arena.client() as AttachableLock;
      for (const mode of [SHARED, { limit: 3 }]) {
        for (const options of [{ ownerId: "me" }, { outlivesDisposal: true }]) {
          await assertRejects(() => lock.acquire("n", { ...mode, ...options }), TypeError);
        }
        const options = mode as AttachOptions;
        await assertRejects(() => lock.attach("n", "me", options), TypeError);
      }
      assertEquals(await arena.residue(), []);
    },
    attach,
  );
}

function sharing(harness: Harness): void {
  behaviour(
    harness,
    "acquire() and tryAcquire() in shared mode hold the lock together and keep exclusive calls out",
    async (arena) => {
      const [a, b] = [await arena.client({ label: "a" }), await arena.client({ label: "b" })];
      const first = await a.acquire("n", SHARED);
      const others = [await a.tryAcquire("n", SHARED), await b.acquire("n", SHARED)];
      const leases = [first, ...others];
      assertEquals(leases.map((lease) => lease?.mode), ["shared", "shared", "shared"]);
      assertEquals(await a.tryAcquire("n"), null);
      assertEquals(await b.tryAcquire("n"), null);
      const { holders, holderCount, waiterCount } = await b.query("n");
      assertEquals([holderCount, waiterCount], [3, 0]);
      assertEquals(holders.map(({ mode }) => mode), ["shared", "shared", "shared"]);
      await release(first);
      assertEquals(await first.release(), false);
      assertEquals((await b.query("n")).holderCount, 2);
      for (const lease of others) lease!.throwIfLost();
      await release(...others);
      const alone = await b.tryAcquire("n");
      assertEquals(alone?.mode, "exclusive");
      assertEquals(await a.tryAcquire("n", SHARED), null);
      await release(alone);
      assertEquals((await a.query("n")).holders, []);
    },
  );

  behaviour(harness, "request() in shared mode runs callbacks side by side", async (arena) => {
    const [a, b] = [await arena.client(), await arena.client()];
    const inside = Promise.withResolvers<void>();
    const outer = a.request("n", SHARED, async ({ mode }) => {
      await within("the other is inside, too", inside.promise);
      return mode;
    });
    assertEquals(
      await b.request("n", { ...SHARED, ifAvailable: true }, (lease) => {
        inside.resolve();
        return lease?.mode ?? null;
      }),
      "shared",
    );
    assertEquals(await outer, "shared");
    assertEquals((await a.query("n")).holders, []);
  });

  behaviour(
    harness,
    "query() lists the first 64 shared holders and counts all",
    async (arena) => {
      const lock = await arena.client();
      const calls = Array.from({ length: 70 }, () => lock.acquire("n", SHARED));
      const leases = await within("all are granted", Promise.all(calls));
      const { holders, holderCount } = await lock.query("n");
      assertEquals([holders.length, holderCount], [64, 70]);
      await Promise.all(leases.map((lease) => lease.release()));
      assertEquals((await lock.query("n")).holderCount, 0);
    },
  );

  behaviour(
    harness,
    "fencing tokens of shared leases lie between those of exclusive ones, and do not fall",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const writer = await a.acquire("n");
      await release(writer);
      const readers = [await a.acquire("n", SHARED), await b.acquire("n", SHARED)];
      let last = writer.fencingToken;
      assert(readers[0]!.fencingToken > last);
      for (const { fencingToken } of readers) {
        assert(fencingToken >= last);
        last = fencingToken;
      }
      await release(...readers);
      const next = await b.acquire("n");
      assert(next.fencingToken > last);
      await release(next);
    },
  );

  behaviour(
    harness,
    "acquire() never lets an exclusive holder in beside another",
    (arena) => mix(arena),
  );
}

/** Random calls of both modes by several clients. All have the same limit: then it holds for all. */
async function mix(arena: Arena, limit?: number): Promise<void> {
  const random = randomFrom("Calls of both modes");
  const clients = [await arena.client(), await arena.client(), await arena.client()];
  const inside = { shared: 0, exclusive: 0 };
  const visit = async (lock: DistributedLock) => {
    const options = random() < 0.3 ? {} : { ...SHARED, limit };
    const isTry = random() < 0.2;
    const lease = await (isTry ? lock.tryAcquire("n", options) : lock.acquire("n", options));
    if (lease === null) return;
    inside[lease.mode]++;
    const { shared, exclusive } = inside;
    assert(exclusive === 0 || shared + exclusive === 1, "a holder beside an exclusive one");
    assert(shared <= (limit ?? Infinity), `${shared} holders, limit ${limit}`);
    for (let turns = random() * 4; turns > 0; turns--) await setImmediate();
    lease.throwIfLost();
    inside[lease.mode]--;
    await release(lease);
  };
  const loops = clients.flatMap((lock) =>
    Array.from({ length: 6 }, async () => {
      for (let round = 0; round < 5; round++) await visit(lock);
    })
  );
  await within("all have had the lock", Promise.all(loops));
  const { holderCount, waiterCount } = await clients[0]!.query("n");
  assertEquals([holderCount, waiterCount], [0, 0]);
}

function order(harness: Harness): void {
  behaviour(
    harness,
    "acquire() waits for all shared holders, in whatever order they leave",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      for (const leaving of [[0, 1, 2], [2, 1, 0], [1, 2, 0]]) {
        const readers = [
          await a.acquire("n", SHARED),
          await b.acquire("n", SHARED),
          await b.acquire("n", SHARED),
        ];
        const writer = await waiting(b, 1);
        for (const i of leaving) {
          assertEquals(writer.isGranted(), false);
          await release(readers[i]!);
        }
        const lease = await within("the writer is granted the lock", writer.lease);
        assertEquals((await a.query("n")).holderCount, 1);
        await release(lease);
      }
    },
  );

  behaviour(
    harness,
    "acquire() serves both modes in their order: a shared call never passes an exclusive one",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const first = await a.acquire("n", SHARED);
      const writer = await waiting(b, 1);
      const readers = [await waiting(a, 2, SHARED), await waiting(b, 3, SHARED)];
      const last = await waiting(a, 4);
      assertEquals(await a.tryAcquire("n", SHARED), null);
      assertEquals(await b.tryAcquire("n", SHARED), null);
      assertEquals(
        [writer, ...readers, last].map((each) => each.isGranted()),
        Array(4).fill(false),
      );
      await release(first);
      const exclusive = await within("the writer is granted the lock", writer.lease);
      assertEquals(readers.map((each) => each.isGranted()), [false, false]);
      await release(exclusive);
      const both = await within(
        "both readers are granted the lock",
        Promise.all(readers.map((each) => each.lease)),
      );
      const { holderCount, waiterCount } = await b.query("n");
      assertEquals([holderCount, waiterCount, last.isGranted()], [2, 1, false]);
      await release(...both);
      await release(await within("the last one is granted the lock", last.lease));
    },
    harness.capabilities.fifo !== "none",
  );

  behaviour(
    harness,
    "acquire() that is aborted or times out lets the shared calls behind it in",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const first = await a.acquire("n", SHARED);
      for (const how of ["abort", "waitMs"]) {
        const abort = new AbortController();
        const end = how === "abort" ? { signal: abort.signal } : { waitMs: 300 };
        const writer = await waiting(b, 1, end);
        const refused = assertRejects(() => writer.lease);
        const reader = a.acquire("n", SHARED);
        if (how === "abort") {
          await waitUntil("both wait", async () => (await b.query("n")).waiterCount === 2);
          abort.abort(new Error("enough"));
        }
        await refused;
        await release(await within("the reader is granted the lock", reader));
      }
      const writer = await b.acquire("n", { waitMs: 1 }).catch((error) => error);
      assert(writer instanceof LockTimeoutError, String(writer));
      await release(first);
    },
  );

  behaviour(harness, "release() lets all shared calls in that wait next", async (arena) => {
    const [a, b] = [await arena.client(), await arena.client()];
    const writer = await a.acquire("n");
    const readers = Array.from({ length: 200 }, (_, i) => (i % 2 ? a : b).acquire("n", SHARED));
    await waitUntil("all wait", async () => (await b.query("n")).waiterCount === 200);
    await release(writer);
    const leases = await within("all are granted the lock together", Promise.all(readers));
    assertEquals((await b.query("n")).holderCount, 200);
    await Promise.all(leases.map((lease) => lease.release()));
    await release(await b.tryAcquire("n"));
  });
}

function ends(harness: Harness): void {
  const { steal } = harness.capabilities;
  behaviour(
    harness,
    "request() with steal takes the lock away from all shared holders",
    async (arena) => {
      const [a, b] = [await arena.client({ ttlMs: FAULT_TTL_MS }), await arena.client()];
      const victims = [await a.acquire("n", SHARED), await a.acquire("n", SHARED)];
      const signals = victims.map(({ signal }) => signal);
      await b.request("n", { steal: true }, async (thief) => {
        for (const signal of signals) {
          await within("the robbed holder's signal aborts", aborted(signal));
          assertEquals(signal.reason.reason, "stolen");
        }
        for (const victim of victims) {
          assert(thief.fencingToken > victim.fencingToken);
          assertEquals(await victim.release(), false);
        }
        assertEquals((await b.query("n")).holderCount, 1);
        thief.throwIfLost();
      });
      assertEquals((await a.query("n")).holderCount, 0);
    },
    steal,
  );

  behaviour(
    harness,
    "maxHoldMs ends one shared lease and leaves the others",
    async (arena) => {
      const lock = await arena.client();
      const stays = await lock.acquire("n", SHARED);
      const ends = await lock.acquire("n", { ...SHARED, maxHoldMs: 50 });
      await within("its signal aborts", aborted(ends.signal));
      await waitUntil("it is gone", async () => (await lock.query("n")).holderCount === 1);
      stays.throwIfLost();
      await release(stays);
    },
  );

  behaviour(
    harness,
    "a process that is killed with a shared lease blocks nobody for longer than its lease",
    async (arena) => {
      const lock = await arena.client();
      const ours = await lock.acquire("n", SHARED);
      await using child = startContender(arena.spec(), { do: "hold", name: "n", mode: "shared" });
      assertEquals((await within("the process holds", child.line())).split(" ")[0], "held");
      assertEquals((await lock.query("n")).holderCount, 2);
      child.kill("SIGKILL");
      const writer = await waiting(lock, 1);
      await release(ours);
      await release(await within("the lock is free again", writer.lease));
    },
    harness.processes,
  );
}

function limits(harness: Harness): void {
  behaviour(
    harness,
    "acquire() with limit never lets too many holders in",
    (arena) => mix(arena, 3),
  );

  behaviour(harness, "acquire() with limit lets so many holders in", async (arena) => {
    const [a, b] = [await arena.client(), await arena.client()];
    const two = { limit: 2 };
    const leases = [await a.acquire("n", two), await b.acquire("n", two)];
    assertEquals(leases.map(({ mode }) => mode), ["shared", "shared"]);
    assertEquals(await a.tryAcquire("n", two), null);
    assertEquals(await b.tryAcquire("n", two), null);
    const third = await waiting(b, 1, two);
    await release(leases[0]!);
    await release(await within("a place is free", third.lease), leases[1]!);
    const only = await a.acquire("n", { limit: 1 });
    assertEquals(await b.tryAcquire("n", { limit: 1 }), null);
    assertEquals(await b.tryAcquire("n"), null);
    await release(only);
    assertEquals((await b.query("n")).holderCount, 0);
  });

  behaviour(
    harness,
    "acquire() with limit obeys its own limit, and holds up those behind it",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const three = [await a.acquire("n", SHARED), await a.acquire("n", { limit: 3 })];
      three.push(await b.acquire("n", { limit: 3 }));
      const small = await waiting(a, 1, { limit: 2 });
      const behind = await waiting(b, 2, SHARED);
      assertEquals(await a.tryAcquire("n", { limit: 9 }), null);
      await release(three[0]!);
      assertEquals([small.isGranted(), behind.isGranted()], [false, false]);
      await release(three[1]!);
      const pair = [
        await within("its limit allows it", small.lease),
        await within("nobody holds it up", behind.lease),
      ];
      const writer = await waiting(b, 1);
      await release(...pair);
      assertEquals(writer.isGranted(), false);
      await release(three[2]!);
      await release(await within("the writer is granted the lock", writer.lease));
    },
  );
}
