import { LockSetupError } from "../core/contract/errors.ts";
import { MAX_DURATION_MS } from "../core/contract/options.ts";
import type { IoredisClient, IoredisCluster } from "../redis/clients/ioredis.ts";

/** A client of ioredis, version 5 or later: of one server, or of a cluster. */
export type RedlockClient = (IoredisClient | IoredisCluster) & {
  /** Closes the connection. */
  quit(): Promise<unknown>;
};

/** The settings of a {@linkcode Redlock}, or of one call. A setting that is not a number is the default. */
export interface RedlockSettings {
  /**
   * By how much `expiration` is earlier than the TTL, as a part of it. The lease itself has an allowance of 1 %.
   *
   * @default {0.01}
   */
  readonly driftFactor?: number;
  /**
   * How many retries redlock makes; -1 for no limit. Here a call waits in a queue, for `retryCount` × `retryDelay`.
   *
   * @default {10}
   */
  readonly retryCount?: number;
  /**
   * The pause, in ms, between the retries of redlock.
   *
   * @default {200}
   */
  readonly retryDelay?: number;
  /**
   * By how much, in ms, redlock varies its pauses. Without effect here.
   *
   * @default {100}
   */
  readonly retryJitter?: number;
  /**
   * How long, in ms, before the end `using()` of redlock extends a lock; at least 100 ms less than the
   * duration. Here it is extended when a third of the duration is over.
   *
   * @default {500}
   */
  readonly automaticExtensionThreshold?: number;
  /**
   * Whether a release makes the first waiter the holder. Set it once no process with redlock is left: they poll, and
   * would starve. Only the setting of the `Redlock` counts, not that of a call.
   *
   * @default {false}
   */
  readonly handoff?: boolean;
}

const DEFAULTS = {
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
} as const;

/** As many outcomes an error has at most. */
const MAX_ATTEMPTS = 1_000;

/** What to do instead of setting a `keyPrefix`: without it, old and new processes lock different keys. */
const PREFIX_ADVICE =
  "redlock has no prefix of its own: pass a client without one, and write the prefix before each resource";

/**
 * Fills in what is not a number, and ignores other names, as redlock does; but a `keyPrefix`, which looks as if it
 * chose the keys, is a `TypeError`.
 */
export function readSettings(
  settings: RedlockSettings,
  defaults: Omit<Required<RedlockSettings>, "handoff"> = DEFAULTS,
): Required<RedlockSettings> {
  if ((settings as { keyPrefix?: unknown }).keyPrefix) {
    throw new TypeError(`Cannot use the setting 'keyPrefix': ${PREFIX_ADVICE}`);
  }
  const read: Record<string, unknown> = { handoff: settings.handoff === true };
  for (const name of Object.keys(DEFAULTS) as (keyof typeof DEFAULTS)[]) {
    const value = settings[name];
    read[name] = typeof value === "number" ? value : defaults[name];
  }
  return read as Required<RedlockSettings>;
}

/** How long, in ms, a call waits; `undefined` for no limit. */
export function waitMsOf(
  { retryCount, retryDelay }: Required<RedlockSettings>,
): number | undefined {
  if (retryCount === -1 || retryCount === Infinity) return undefined;
  return Math.min(Math.max(0, Math.round(retryCount * retryDelay)), MAX_DURATION_MS);
}

/** How many attempts redlock would have made. */
export function attemptsOf({ retryCount }: Required<RedlockSettings>): number {
  return retryCount < 0 ? 1 : Math.min(Math.floor(retryCount) + 1, MAX_ATTEMPTS);
}

/** The client of a `Redlock`. Throws if there is none, if there are several, or if it has a `keyPrefix`. */
export function onlyClient(clients: ReadonlySet<RedlockClient>): RedlockClient {
  const [client, ...others] = clients;
  if (client === undefined) {
    throw new TypeError("Redlock must be instantiated with at least one redis client.");
  }
  if (others.length > 0) {
    throw new TypeError(
      `Cannot make a Redlock of ${others.length + 1} servers: it locks on one, for several ` +
        "independent servers cannot issue fencing tokens, and their clocks decide about the lock; " +
        "pass one client, of a server with replicas or of a cluster",
    );
  }
  if (client?.options?.keyPrefix) {
    throw new LockSetupError(
      `Cannot use an ioredis client that has a 'keyPrefix': ${PREFIX_ADVICE}`,
    );
  }
  return client;
}

/** The database that a client of ioredis has selected: by its options, or by `select()` since. */
export function databaseOf(client: RedlockClient): number {
  const { condition, options } = client as {
    condition?: { select?: number } | null;
    options: { db?: number };
  };
  return condition?.select ?? options.db ?? 0;
}
