/**
 * Behaviours: what calls and leases publish on the channels, each event once.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type AttachableLock, LeaseLostError, LockTimeoutError } from "../../mod.ts";
import { type TracedEvent, traceEvents } from "../core/traced_events.ts";
import { waitUntil } from "../servers/wait.ts";
import { ENDING_TTL_MS } from "../time.ts";
import { aborted, within } from "./bounds.ts";
import { behaviour, type Harness } from "./harness.ts";

const SHORT_MS = 50;

/** Registers the behaviours. */
export function tracingSuite(harness: Harness): void {
  behaviour(
    harness,
    "request() publishes its call, its grant and its release once each, without an owner id",
    async (arena) => {
      const lock = await arena.client({ label: "billing-3" });
      using events = traceEvents();
      let ownerId = "";
      const token = await lock.request("n", (lease) => {
        ownerId = lease.ownerId;
        return lease.fencingToken;
      });
      assertEquals(events.order(), ["grant", "acquire", "release"]);
      const [call] = events.of("acquire");
      const [release] = events.of("release");
      assertEquals([call!.name, call!.method, call!.mode], ["n", "acquire", "exclusive"]);
      assertEquals([call!.label, call!.result], ["billing-3", "granted"]);
      assertEquals([release!.label, release!.fencingToken], ["billing-3", token]);
      assertEquals(release!.strategy, call!.strategy);
      assert(call!.waitedMs! >= 0 && release!.heldMs! >= 0);
      const text = [...events.of("acquire"), ...events.of("release")]
        .map((event) => JSON.stringify(event, (_, value) => plain(value)));
      assert(!text.some((each) => each.includes(ownerId)), text.join());
    },
  );

  behaviour(
    harness,
    "acquire() publishes its wait once, its holder's label when it has waited for 100 ms, and its grant",
    async (arena) => {
      const holder = await arena.client({ label: "nightly-export" });
      const waiter = harness.processes ? await arena.client({ label: "checkout" }) : holder;
      const lease = await holder.acquire("n");
      using events = traceEvents();
      const waiting = waiter.acquire("n");
      // Between processes, files know no waiters of others, but each its own.
      await waitUntil("the holder is read", () => events.of("blocked").length > 0);
      assertEquals(events.order(), ["wait", "blocked"]);
      await lease.release();
      await (await waiting).release();
      assertEquals(events.order().toSorted(), [
        ...["acquire", "blocked", "grant", "release", "release", "wait"],
      ]);
      const [wait] = events.of("wait");
      const [blocked] = events.of("blocked");
      const [grant] = events.of("grant");
      assertEquals(wait!.position, 1);
      assertEquals([blocked!.holderLabel, blocked!.holderCount], ["nightly-export", 1]);
      assert(blocked!.waitedMs! >= 90, String(blocked!.waitedMs));
      assert(grant!.call!.waitedMs >= blocked!.waitedMs!);
    },
  );

  behaviour(
    harness,
    "a call that ends without the lock publishes its end once: busy, or its error",
    async (arena) => {
      const lock = await arena.client();
      await using _lease = await lock.acquire("n");
      using events = traceEvents();
      assertEquals(await lock.tryAcquire("n"), null);
      await assertRejects(() => lock.acquire("n", { waitMs: SHORT_MS }), LockTimeoutError);
      // On a late machine the call has been blocked for 100 ms before it ends.
      const ends = events.order().filter((each) => each !== "blocked");
      assertEquals(ends, ["acquire", "wait", "acquire"]);
      const [busy, failed] = events.of("acquire");
      assertEquals([busy!.method, busy!.result], ["tryAcquire", "busy"]);
      assert(failed!.error instanceof LockTimeoutError);
    },
  );

  behaviour(
    harness,
    "a lease that is lost publishes its loss once, and no release",
    async (arena) => {
      const lock = await arena.client({ ttlMs: ENDING_TTL_MS });
      using events = traceEvents();
      const lease = await lock.acquire("n");
      await arena.lose(lease);
      await within("the loss is known", aborted(lease.signal));
      assertEquals(await lease.release(), false);
      const ofLease = ({ fencingToken }: TracedEvent) => fencingToken === lease.fencingToken;
      assertEquals(events.of("release").filter(ofLease), []); // in memory, a thief has one
      const [lost, ...more] = events.of("lost");
      assertEquals(more, []);
      assert(lost!.error instanceof LeaseLostError && lost!.error === lease.signal.reason);
      assertEquals(lost!.reason, lease.signal.reason.reason);
    },
  );

  behaviour(
    harness,
    "request() with steal publishes the loss of its victim, and its own grant",
    async (arena) => {
      const lock = await arena.client();
      const victim = await lock.acquire("n");
      using events = traceEvents();
      await lock.request("n", { steal: true }, () => {});
      await within("the loss is known", aborted(victim.signal));
      assertEquals(events.order().toSorted(), ["acquire", "grant", "lost", "release"]);
      assertEquals(events.of("lost")[0]!.reason, "stolen");
      assertEquals(events.of("acquire")[0]!.method, "steal");
    },
    harness.capabilities.steal,
  );

  behaviour(
    harness,
    "attach() publishes its call and its grant",
    async (arena) => {
      const lock = await arena.client() as AttachableLock;
      const { ownerId } = await lock.acquire("n", { ownerId: "job-7" });
      using events = traceEvents();
      const lease = await lock.attach("n", ownerId);
      assertEquals(events.order().toSorted(), ["acquire", "grant", "lost"]);
      assertEquals(events.of("acquire")[0]!.method, "attach");
      await lease!.release();
    },
    harness.capabilities.attach,
  );
}

function plain(value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
