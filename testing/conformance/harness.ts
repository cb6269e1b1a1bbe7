/**
 * The interface between the conformance suite and a strategy under test.
 *
 * @module
 */
import type { DistributedLock, Lease, LockCapabilities } from "../../mod.ts";
import { registerTest } from "../runtime/tests.ts";
import type { BehaviourCounts } from "./counts.ts";
import type { LockSpec } from "./lock_spec.ts";

/** Options of a client. */
export interface ClientOptions {
  readonly label?: string;
  readonly ttlMs?: number;
  /** How long its disposal waits for the releases of its leases. */
  readonly disposeTimeoutMs?: number | undefined;
  /** Gets the client's warnings. Not for other processes. */
  readonly onWarning?: (message: string) => void;
}

/** A fresh namespace for locks: its clients exclude each other and no other client. */
export interface Arena extends AsyncDisposable {
  /** Opens a client with its own connections, like a client in another process. */
  client(options?: ClientOptions): Promise<DistributedLock>;
  /** Takes the lock away without notifying its holder. */
  lose(lease: Lease): Promise<void>;
  /** The keys, znodes, … that are left in the arena, except those that remember fencing tokens. */
  residue(): Promise<string[]>;
  /** Describes a client, so that another process can open it. */
  spec(options?: ClientOptions): LockSpec;
}

/** A strategy under test. */
export interface Harness {
  /** The prefix of its tests' names. */
  readonly name: string;
  /** The capabilities that the strategy must report. */
  readonly capabilities: LockCapabilities;
  /** Whether the lock works across processes; if not, tests with processes are left out. */
  readonly processes: boolean;
  /** The TTL or session timeout of its clients in ms; `Infinity` if leases do not expire. */
  readonly ttlMs: number;
  /** Whether a `tryAcquire()` that is refused knows the number of waiters. */
  readonly knowsWaitersOfTry: boolean;
  /** Why the suite cannot run here. The reason is shown, and the tests count as ignored. */
  readonly skip?: string | undefined;
  /** Starts the servers that all arenas share. */
  start(): Promise<void>;
  stop(): Promise<void>;
  arena(): Promise<Arena>;
  /** Counts its behaviours; set by the suite. */
  readonly counts?: BehaviourCounts;
}

/** Registers one behaviour of the suite if the strategy promises it (`applies`). */
export function behaviour(
  harness: Harness,
  name: string,
  test: (arena: Arena) => Promise<void>,
  applies: boolean = true,
): void {
  if (!applies) return;
  const { counts } = harness;
  if (counts !== undefined) counts.of++;
  registerTest(`${harness.name}: ${name}`, async () => {
    await using arena = await harness.arena();
    await test(arena);
    if (counts !== undefined) counts.passed++;
  });
}
