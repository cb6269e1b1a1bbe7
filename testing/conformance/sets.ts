/**
 * Behaviours: several names at once. All of them are held, or none.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  acquireAll,
  type AttachableLock,
  type DistributedLock,
  LeaseLostError,
  LockTimeoutError,
  requestAll,
  tryAcquireAll,
} from "../../mod.ts";
import { randomFrom } from "../processes/random.ts";
import { waitUntil } from "../servers/wait.ts";
import { aborted, within } from "./bounds.ts";
import { behaviour, type Harness } from "./harness.ts";

const NAMES = ["a", "b", "c", "d", "e"];

async function assertFree(lock: DistributedLock, ...names: string[]): Promise<void> {
  for (const name of names) {
    await waitUntil(`${name} is free`, async () => (await lock.query(name)).holderCount === 0);
  }
}

/** Registers the behaviours. */
export function setsSuite(harness: Harness): void {
  allOrNone(harness);
  competing(harness);
  others(harness);
}

function allOrNone(harness: Harness): void {
  behaviour(
    harness,
    "acquireAll() holds all names, in the order of their code units, and releases all",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const set = await acquireAll(a, ["b", "é", "a", "B"]);
      assertEquals([...set.leases.keys()], ["B", "a", "b", "é"]);
      assert(set.isHeld && set.remainingMs > 0);
      for (const name of set.leases.keys()) assertEquals(await b.tryAcquire(name), null);
      assertEquals([await set.release(), await set.release()], [true, false]);
      assertEquals(set.isHeld, false);
      await assertFree(b, "B", "a", "b", "é");
      await using _again = await acquireAll(b, ["a", "b"]);
    },
  );

  behaviour(
    harness,
    "acquireAll() and tryAcquireAll() that fail in the middle keep none of the names",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const held = await b.acquire("b");
      assertEquals(await tryAcquireAll(a, ["b", "a", "c"]), null);
      await assertFree(b, "a", "c");
      assertEquals(await tryAcquireAll(a, ["b", "a"], { waitMs: 50 }), null);
      const error = await assertRejects(
        () => acquireAll(a, ["a", "b", "c"], { waitMs: 50 }),
        LockTimeoutError,
      );
      assertEquals(error.lockName, "b");
      await assertFree(b, "a", "c");
      const abort = new AbortController();
      const waiting: string[] = [];
      const call = acquireAll(a, ["a", "b"], {
        signal: abort.signal,
        onWait: (name) => void waiting.push(name),
      });
      const refused = assertRejects(() => call, Error, "enough");
      await waitUntil("it waits for b", async () => {
        return waiting.includes("b") && (await b.query("a")).holderCount === 1;
      });
      abort.abort(new Error("enough"));
      await refused;
      await assertFree(b, "a");
      assertEquals((await b.query("b")).waiterCount, 0);
      held.throwIfLost();
      assertEquals(await held.release(), true);
      assertEquals(await arena.residue(), []);
    },
  );

  behaviour(
    harness,
    "requestAll() runs its callback under all names; with ifAvailable it may get null",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const result = await requestAll(a, ["b", "a"], async (set) => {
        set.throwIfLost();
        const options = { ifAvailable: true, steal: undefined };
        assertEquals(await requestAll(b, ["c", "b"], options, (none) => none), null);
        return [...set.leases.keys()].join();
      });
      assertEquals(result, "a,b");
      const thrown = requestAll(a, ["a", "b"], { label: "x" }, () => {
        throw new Error("the callback's own");
      });
      await assertRejects(() => thrown, Error, "the callback's own");
      await assertFree(b, "a", "b", "c");
    },
  );
}

function competing(harness: Harness): void {
  behaviour(
    harness,
    "acquireAll() of overlapping sets in any order never deadlocks",
    async (arena) => {
      const random = randomFrom("Overlapping sets");
      const clients = [await arena.client(), await arena.client(), await arena.client()];
      const inside = new Map<string, number>();
      const visit = async (lock: DistributedLock) => {
        const names = NAMES.toSorted(() => random() - 0.5).slice(0, 2 + Math.floor(random() * 3));
        const isTry = random() < 0.2;
        const set = await (isTry ? tryAcquireAll(lock, names) : acquireAll(lock, names));
        for (const name of set?.leases.keys() ?? []) {
          assertEquals(inside.get(name) ?? 0, 0, `${name} has two holders`);
          inside.set(name, 1);
        }
        await null;
        set?.throwIfLost();
        for (const name of set?.leases.keys() ?? []) inside.delete(name);
        await set?.release();
      };
      const loops = clients.flatMap((lock) =>
        Array.from({ length: 3 }, async () => {
          for (let round = 0; round < 4; round++) await visit(lock);
        })
      );
      await within("all sets were held", Promise.all(loops));
      await assertFree(clients[0]!, ...NAMES);
    },
  );

  behaviour(
    harness,
    "acquireAll() with modes shares some names and excludes others",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const rates = { name: "rates", mode: "shared" } as const;
      await using first = await acquireAll(a, ["x", rates]);
      await using second = await acquireAll(b, ["y", "z"].map((name) => ({ name })));
      await using third = await tryAcquireAll(b, [rates, "w"]);
      assert(third !== null);
      const modes = [first, second, third].flatMap(({ leases }) =>
        [...leases.values()].map(({ name, mode }) => `${name} ${mode}`)
      );
      assertEquals(modes, [
        ...["rates shared", "x exclusive", "y exclusive", "z exclusive"],
        ...["rates shared", "w exclusive"],
      ]);
      assertEquals(await tryAcquireAll(b, ["rates", "v"]), null);
      assertEquals(await tryAcquireAll(b, ["rates", "x"], { mode: "shared" }), null);
      await assertFree(b, "v");
    },
    harness.capabilities.shared,
  );
}

function others(harness: Harness): void {
  const { steal, attach } = harness.capabilities;
  behaviour(
    harness,
    "LeaseSet.release() of a set that was lost leaves the next holder alone",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const set = await acquireAll(a, ["a", "b"]);
      await arena.lose(set.leases.get("b")!);
      const next = await within("the name is free", b.acquire("b"));
      assertEquals(await set.release(), false);
      next.throwIfLost();
      assertEquals((await b.query("b")).holderCount, 1);
      assertEquals(await a.tryAcquire("b"), null);
      assertEquals(await next.release(), true);
      await assertFree(b, "a", "b");
    },
  );

  behaviour(
    harness,
    "acquireAll() ends all leases after maxHoldMs, and others are granted the locks",
    async (arena) => {
      const [a, b] = [await arena.client(), await arena.client()];
      const set = await acquireAll(a, ["a", "b"], { maxHoldMs: 150 });
      await within("the set's signal aborts by itself", aborted(set.signal));
      assertEquals((set.signal.reason as LeaseLostError).reason, "max-hold");
      await (await within("the next set is granted", acquireAll(b, ["a", "b"]))).release();
      assertEquals(await set.release(), false);
    },
  );

  behaviour(
    harness,
    "acquireAll() ends its wait when it loses an earlier name, and the set's signal aborts",
    async (arena) => {
      const [a, b] = [await arena.client({ ttlMs: harness.ttlMs }), await arena.client()];
      const held = await b.acquire("b");
      const call = acquireAll(a, ["a", "b"]);
      const lost = assertRejects(() => call, LeaseLostError);
      await waitUntil("it waits for b", async () => (await b.query("b")).waiterCount === 1);
      await b.request("a", { steal: true }, async () => {
        assertEquals((await within("the wait ends", lost)).lockName, "a");
      });
      assertEquals(await held.release(), true);
      await assertFree(b, "a", "b");
      const set = await acquireAll(a, ["a", "b"]);
      const { signal } = set;
      await b.request("b", { steal: true }, async () => {
        await waitUntil("the signal aborts", () => signal.aborted);
        assertEquals((signal.reason as LeaseLostError).lockName, "b");
        assertEquals([set.isHeld, set.remainingMs], [false, 0]);
        assertThrows(() => set.throwIfLost(), LeaseLostError);
        assertEquals(set.leases.get("a")!.isHeld, true);
        assertEquals(await set.release(), false);
      });
    },
    steal,
  );

  behaviour(
    harness,
    "acquireAll() under an owner id that holds some of the names takes them over",
    async (arena) => {
      const [a, b] = [
        await arena.client() as AttachableLock,
        await arena.client() as AttachableLock,
      ];
      const ownerId = `workflow/${crypto.randomUUID()}`;
      const first = await acquireAll(a, ["b", "a"], { ownerId, ttlMs: harness.ttlMs });
      const again = await within(
        "it does not wait for itself",
        acquireAll(b, ["a", "b", "c"], { ownerId }),
      );
      assertEquals(
        [...again.leases.values()].map((lease) => lease.ownerId),
        Array(3).fill(ownerId),
      );
      assertEquals(await first.release(), false);
      again.throwIfLost();
      assertEquals(await again.release(), true);
    },
    attach,
  );
}
