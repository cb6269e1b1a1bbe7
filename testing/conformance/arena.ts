/**
 * Builds an arena: opens and closes clients, and checks that they leave nothing behind.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import type { Lease } from "../../mod.ts";
import type { Arena, ClientOptions } from "./harness.ts";
import { type LockSpec, openLock } from "./open_lock.ts";
import { waitUntil } from "../servers/wait.ts";

/** The parts of an arena whose clients are described by a {@linkcode LockSpec}. */
export interface ArenaParts {
  spec(options: ClientOptions): LockSpec;
  lose(lease: Lease): Promise<void>;
  residue(): Promise<string[]>;
  close(): Promise<void>;
}

/** Makes an arena. Its disposal fails if the clients left anything behind. */
export function makeArena(parts: ArenaParts): Arena {
  const opened: AsyncDisposable[] = [];
  return {
    async client(options = {}) {
      const client = await openLock(parts.spec(options), options.onWarning);
      opened.push(client);
      return client.lock;
    },
    lose: parts.lose,
    residue: parts.residue,
    spec: (options = {}) => parts.spec(options),
    async [Symbol.asyncDispose]() {
      try {
        for (const client of opened.reverse()) await client[Symbol.asyncDispose]();
        // Keys of a killed process disappear when their TTL ends.
        let left: string[] = [];
        await waitUntil("nothing is left behind", async () => {
          left = await parts.residue();
          return left.length === 0;
        }).catch(() => assertEquals(left, []));
      } finally {
        await parts.close();
      }
    },
  };
}
