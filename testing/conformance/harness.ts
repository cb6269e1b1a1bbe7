/**
 * What the conformance suite needs of a strategy under test.
 *
 * @module
 */
import type { DistributedLock, Lease, LockCapabilities } from "../../mod.ts";
import { registerTest } from "../runtime/tests.ts";
import type { LockSpec } from "./lock_spec.ts";

/** Options of a client. */
export interface ClientOptions {
  readonly label?: string;
  readonly ttlMs?: number;
}

/** A fresh place for locks: all its clients exclude each other, and nobody else. */
export interface Arena extends AsyncDisposable {
  /** Opens a client with connections of its own, as another process would have. */
  client(options?: ClientOptions): Promise<DistributedLock>;
  /** Takes the lock away from its holder, behind its back. */
  lose(lease: Lease): Promise<void>;
  /** What is left in this place, but for the memory of fencing tokens: keys, znodes, … */
  residue(): Promise<string[]>;
  /** How another process opens a client. */
  spec(options?: ClientOptions): LockSpec;
}

/** A strategy under test. */
export interface Harness {
  /** Starts the names of its tests. */
  readonly name: string;
  /** What the strategy must promise. */
  readonly capabilities: LockCapabilities;
  /** Whether other processes take part. */
  readonly processes: boolean;
  /** The TTL or session timeout of its clients in ms; `Infinity` if a lease ends otherwise. */
  readonly ttlMs: number;
  /** Why the suite cannot run here; shown, and the tests count as ignored. */
  readonly skip?: string | undefined;
  /** Starts what all arenas share. */
  start(): Promise<void>;
  stop(): Promise<void>;
  arena(): Promise<Arena>;
}

/** Registers one behaviour of the suite, unless the strategy does not promise it (`applies`). */
export function behaviour(
  harness: Harness,
  name: string,
  test: (arena: Arena) => Promise<void>,
  applies: boolean = true,
): void {
  if (!applies) return;
  registerTest(`${harness.name}: ${name}`, async () => {
    await using arena = await harness.arena();
    await test(arena);
  });
}
