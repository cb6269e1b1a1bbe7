/**
 * An ask that Redis executes late takes the lock from a later call of the same owner id. Nobody believes
 * in a lease that is gone then, and nobody else gets the lock.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Gate } from "../../testing/redis/gated_client.ts";
import { atOnce, isTheOne, play } from "../../testing/redis/race_stage.ts";
import { provenInboxes } from "../../testing/redis/traces.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

const ID = "job-7";
const OWNER = { ownerId: ID };

Deno.test("RedisLock.attach() returns a lease that holds the lock when an earlier ask of its owner id is executed after its own", () =>
  play(async (stage) => {
    const { lock, other, gates } = stage;
    const held = await other.acquire("n");
    const waiting = lock.acquire("n", OWNER);
    await waitUntil("its inbox is proven", async () => {
      return (await provenInboxes(stage.server.command, stage.keys.waiters)).length === 1;
    });
    const late = new Gate();
    gates.onRequest = late.first("ask");
    const joined = lock.tryAcquire("n", OWNER); // makes the call that waits ask once more
    joined.catch(() => {}); // it is awaited later
    await late.arrived;
    await held.release();
    const first = await atOnce("it is granted", waiting);
    const behind = other.acquire("n");
    behind.catch(() => {}); // it is awaited later
    await waitUntil("the other waits", async () => await stage.waiting() === 1);
    // Redis executes the late ask between that of attach() and whatever follows it.
    const lateReply = Promise.withResolvers<void>();
    gates.onReply = async ({ script, args }) => {
      if (script !== "ask") return;
      if (args[3] !== "attach") return lateReply.resolve();
      late.open();
      await lateReply.promise;
    };
    const attached = await atOnce("it is answered", lock.attach("n", ID));
    gates.onReply = undefined;
    assert(attached !== null && attached !== first);
    assert(!first.isHeld);
    attached.throwIfLost();
    assert((await stage.holder())?.startsWith(ID));
    await attached.renew();
    assert(await joined === attached || await joined === null || await joined === first);
    assertEquals(await attached.release(), true);
    assertEquals(await (await atOnce("then the other", behind)).release(), true);
  }));

Deno.test("RedisLock.acquire() with an owner id returns a lease that holds the lock when the ask of an aborted call is executed late", () =>
  play(async (stage) => {
    const { lock, gates } = stage;
    const late = new Gate();
    gates.onRequest = late.first("ask");
    const abort = new AbortController();
    const aborted = lock.acquire("n", { ...OWNER, signal: abort.signal });
    await late.arrived;
    abort.abort();
    await assertRejects(() => aborted, DOMException);
    const leases = [lock.acquire("n", OWNER), lock.tryAcquire("n", OWNER)];
    leases.forEach((lease) => lease.catch(() => {})); // they are awaited later
    // The ask of the aborted call may be executed as long as it is unanswered.
    await stage.other.query("n");
    late.open();
    for (const call of leases) {
      const lease = await atOnce("it is granted", call);
      assert(lease !== null);
      await isTheOne(stage, lease);
    }
    assertEquals(await (await leases[0]!)!.release(), true);
  }));
