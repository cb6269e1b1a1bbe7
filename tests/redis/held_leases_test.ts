import { assertEquals } from "@std/assert";
import type { RedisClient } from "../../redis/mod.ts";
import type { LockMode } from "../../mod.ts";
import { HeldLeases, type Holder } from "../../redis/held_leases.ts";
import { openLease } from "../../testing/core/fake_service.ts";

/** A lease that the leases of one client know, and a log of its ends. */
function add(
  leases: HeldLeases,
  value: string,
  fencingToken: bigint,
  ownerId = value,
  mode: LockMode = "exclusive",
) {
  const { lease, clock } = openLease({ ownerId, fencingToken, mode });
  const log: string[] = [];
  const onLaterGrant = (later: string) => {
    log.push(later);
    lease.lose("stolen");
  };
  leases.add("lock:n", { value, leaseMode: mode, onLaterGrant }, lease);
  return { lease, clock, log };
}

function granted(
  value: string,
  fencingToken: bigint,
  leaseMode: LockMode = "exclusive",
): [Pick<Holder, "value" | "leaseMode">, bigint] {
  return [{ value, leaseMode }, fencingToken];
}

function open(): HeldLeases {
  return new HeldLeases({} as RedisClient);
}

Deno.test("HeldLeases ends an earlier lease when a later grant is known, whichever is added first", () => {
  const leases = open();
  const first = add(leases, "a", 5n);
  leases.onGrant("lock:n", ...granted("b", 6n));
  assertEquals([first.log, first.lease.isHeld], [["b"], false]);
  const third = add(leases, "c", 8n);
  assertEquals(leases.hasLater("lock:n", "exclusive", 6n), true);
  leases.onGrant("lock:n", ...granted("b", 6n));
  leases.onGrant("lock:n", ...granted("c", 9n));
  assertEquals([third.log, third.lease.isHeld], [[], true]);
});

Deno.test("HeldLeases keeps a lease with a smaller token when the lease with the greater one is over", async () => {
  const leases = open();
  const { clock } = add(leases, "a", 5n);
  await clock.pass(3_000); // then the server has lost the tokens
  assertEquals(leases.hasLater("lock:n", "exclusive", 3n), false);
  const next = add(leases, "b", 3n);
  assertEquals([next.log, next.lease.isHeld, leases.has("lock:n", "b")], [[], true, true]);
});

Deno.test("HeldLeases removes a lease only if no later one has replaced it, and counts those of its RedisLock", () => {
  const client = {} as RedisClient;
  const [leases, others] = [new HeldLeases(client), new HeldLeases(client)];
  add(leases, "a", 5n);
  add(others, "b", 6n);
  assertEquals([leases.count, others.count], [0, 1]);
  leases.remove("lock:n", "a");
  leases.clear();
  assertEquals([others.count, leases.has("lock:n", "b")], [1, true]);
  others.remove("lock:n", "b");
  assertEquals(others.count, 0);
});

Deno.test("HeldLeases.onDenied() ends the lease of an owner id, unless another RedisLock has it", () => {
  const client = {} as RedisClient;
  const [leases, others] = [new HeldLeases(client), new HeldLeases(client)];
  const { lease } = add(leases, "a#1", 5n, "a");
  leases.onDenied("lock:m", "a");
  leases.onDenied("lock:n", "b");
  others.onDenied("lock:n", "a");
  assertEquals(lease.isHeld, true);
  leases.onDenied("lock:n", "a");
  assertEquals(lease.isHeld, false);
});

Deno.test("HeldLeases.onStolen() ends the lease of an owner value only", () => {
  const leases = open();
  const { lease } = add(leases, "a#1", 5n, "a");
  leases.onStolen("lock:m", "a#1");
  leases.onStolen("lock:n", "a#2");
  assertEquals(lease.isHeld, true);
  leases.onStolen("lock:n", "a#1");
  assertEquals(lease.isHeld, false);
});

Deno.test("HeldLeases.isHeldUnder() is true while a lease of the owner id on the client counts", () => {
  const client = {} as RedisClient;
  const [leases, others] = [new HeldLeases(client), new HeldLeases(client)];
  const { lease } = add(others, "a#1", 5n, "a");
  const isHeld = () =>
    [["n", "a"], ["n", "b"], ["m", "a"]].map(([name, ownerId]) =>
      leases.isHeldUnder(`lock:${name}`, ownerId!)
    );
  assertEquals(isHeld(), [true, false, false]);
  lease.lose("stolen");
  assertEquals(isHeld(), [false, false, false]);
});

Deno.test("HeldLeases keeps shared leases beside each other, until a later exclusive grant ends them all", () => {
  const client = {} as RedisClient;
  const [leases, others] = [new HeldLeases(client), new HeldLeases(client)];
  const writer = add(leases, "w", 4n);
  const readers = [
    add(leases, "a", 5n, "a", "shared"),
    add(others, "b", 6n, "b", "shared"),
    add(leases, "c", 5n, "c", "shared"),
  ];
  assertEquals(writer.log, ["a"], "it cannot share the lock");
  leases.onGrant("lock:n", ...granted("d", 9n, "shared"));
  assertEquals(readers.map(({ lease }) => lease.isHeld), [true, true, true]);
  assertEquals([leases.count, others.count], [2, 1]);
  leases.onGrant("lock:m", ...granted("x", 9n));
  leases.onGrant("lock:n", ...granted("x", 5n)); // an old grant
  assertEquals(readers.map(({ lease }) => lease.isHeld), [true, true, true]);
  assertEquals(leases.hasLater("lock:n", "exclusive", 5n), true);
  assertEquals(leases.hasLater("lock:n", "shared", 5n), false);
  leases.onStolen("lock:n", "c");
  leases.onGrant("lock:n", ...granted("x", 10n));
  assertEquals(readers.map(({ log }) => log), [["x"], ["x"], ["x"]]);
});

Deno.test("HeldLeases knows of a later exclusive lease for a shared grant, and leaves nothing behind", () => {
  const leases = open();
  add(leases, "w", 7n);
  assertEquals(leases.hasLater("lock:n", "shared", 5n), true);
  assertEquals(leases.hasLater("lock:n", "exclusive", 7n), false);
  for (const value of ["a", "b"]) add(leases, value, 8n, value, "shared");
  assertEquals(leases.count, 2, "they have replaced the exclusive one");
  leases.remove("lock:n", "a");
  assertEquals(["a", "b"].map((value) => leases.has("lock:n", value)), [false, true]);
  const last = add(leases, "x", 9n);
  assertEquals(leases.count, 1, "it has replaced the shared ones");
  leases.onGrant("lock:n", ...granted("y", 9n));
  assertEquals(last.log, []);
  leases.remove("lock:n", "x");
  assertEquals(leases.count, 0);
});
