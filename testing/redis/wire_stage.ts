/**
 * The actors of a race that is forced on real sockets: a lock that connects through a proxy, and another
 * one that connects directly.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import type { Lease } from "../../mod.ts";
import { ASK, LEAVE, RENEW } from "../../redis/protocol/scripts.ts";
import { type LockKeys, lockKeys } from "../../redis/protocol/keys.ts";
import { GRANT_MESSAGE } from "../../redis/protocol/messages.ts";
import { GRANTED, QUEUED } from "../../redis/protocol/wire.ts";
import { RedisLock } from "../../redis/mod.ts";
import type { RedisClientName } from "../conformance/open_lock.ts";
import { startProxy, type Verdict } from "../servers/proxy.ts";
import { type RedisServer, startRedis } from "../servers/redis.ts";
import { waitUntil } from "../servers/wait.ts";
import { openRedisClient } from "./clients.ts";
import type { Gate } from "./gated_client.ts";
import { atOnce, TTL_MS } from "./race_stage.ts";
import { queueLength } from "./queue_reader.ts";
import { nothingLeft, provenInboxes } from "./traces.ts";

/** The longest TTL in ms that a scene uses. */
const LONGEST_MS = 600_000;

const SCRIPTS = { ask: ASK, leave: LEAVE, renew: RENEW };

/** A script on its way to the server. */
export interface WireScript {
  readonly script: keyof typeof SCRIPTS;
  /** The whole command, so that a test can deliver a copy late. */
  readonly command: readonly string[];
}

/** Traffic from the server: the answer to an ask, or a grant message. */
export type WireReply = "granted" | "queued" | "message";

/** The actors. All locks are called "n". */
export interface WireStage {
  readonly server: RedisServer;
  readonly keys: LockKeys;
  /** The lock that connects through the proxy. */
  readonly lock: RedisLock;
  readonly other: RedisLock;
  /** All scripts that the proxy has seen. */
  readonly sent: WireScript[];
  onRequest: ((sent: WireScript) => Verdict) | undefined;
  onReply: ((reply: WireReply) => Verdict) | undefined;
  /** Reads the lock key. */
  holder(): Promise<string | null>;
  /** Makes `other` hold the lock, and `lock` wait for it, first in line and subscribed. */
  queueUp(): Promise<{ held: Lease; waiting: Promise<Lease> }>;
  /** Delivers a copy to the server now. Returns the state that the script replies. */
  deliver(late: WireScript): Promise<number>;
  /** Asserts that the lease holds the lock, that no other does, and that no call waits. */
  isTheOne(lease: Lease): Promise<void>;
  /** Asserts that `other` gets the lock without waiting for the end of a claim or a TTL. */
  freeAtOnce(): Promise<void>;
}

/** The proxy's verdict for a gate: holds back the first chunk, and all that follow in its direction. */
export function holdBack(gate: Gate): Verdict {
  const held = gate.pass();
  return held === undefined ? "pass" : { until: held };
}

/** Plays a scene with this client. Asserts that it leaves nothing on the server. */
export async function playOnWire(
  name: RedisClientName,
  scene: (stage: WireStage) => Promise<void>,
): Promise<void> {
  await using server = await startRedis();
  for (const { source } of Object.values(SCRIPTS)) await server.command("SCRIPT", "LOAD", source);
  {
    await using proxy = startProxy(server);
    const near = await openRedisClient("node-redis", server.url);
    const far = await openRedisClient(name, `redis://${proxy.hostname}:${proxy.port}`);
    try {
      await using lock = new RedisLock(far.client, { ttlMs: TTL_MS });
      await using other = new RedisLock(near.client, { ttlMs: TTL_MS });
      const stage = actors(server, lock, other);
      proxy.onRequest = (chunk) => {
        const scripts = read(chunk);
        stage.sent.push(...scripts);
        const verdicts = scripts.map((sent) => stage.onRequest?.(sent) ?? "pass");
        return verdicts.find((verdict) => verdict !== "pass") ?? "pass";
      };
      proxy.onReply = (chunk) => {
        const reply = kindOf(chunk);
        return reply === null ? "pass" : stage.onReply?.(reply) ?? "pass";
      };
      await (await lock.acquire("warm-up")).release(); // makes the server's clock known
      await scene(stage);
    } finally {
      await far.close();
      await near.close();
    }
  }
  await nothingLeft(server, LONGEST_MS);
}

function actors(server: RedisServer, lock: RedisLock, other: RedisLock): WireStage {
  const keys = lockKeys("lock:", "n");
  const { command } = server;
  const holder = async () => await command("GET", keys.lock) as string | null;
  return {
    ...{ server, keys, lock, other, sent: [], onRequest: undefined, onReply: undefined, holder },
    async queueUp() {
      const held = await other.acquire("n");
      const waiting = lock.acquire("n");
      waiting.catch(() => {}); // it is awaited later
      await waitUntil("its inbox is proven", async () => {
        return (await provenInboxes(command, keys.waiters)).length === 1;
      });
      return { held, waiting };
    },
    async deliver(late) {
      const [state] = await command(...late.command) as number[];
      return state!;
    },
    async isTheOne(lease) {
      lease.throwIfLost();
      assert((await holder())?.startsWith(lease.ownerId));
      assertEquals(await other.tryAcquire("n"), null);
      assertEquals(await queueLength(command, keys), 0);
      await lease.renew();
    },
    async freeAtOnce() {
      const lease = await atOnce("the lock is free", other.acquire("n"));
      lease.throwIfLost();
      assertEquals(await lease.release(), true);
    },
  };
}

/** Finds the scripts in a chunk of requests. Our arguments contain no line ends. */
function read(chunk: Uint8Array): WireScript[] {
  const commands = new TextDecoder().decode(chunk).split(/(?=^\*\d+\r\n)/m);
  return commands.flatMap((text) => {
    const command = text.trimEnd().split("\r\n").filter((_, i) => i > 0 && i % 2 === 0);
    const names = Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[];
    const script = names.find((name) => SCRIPTS[name].sha1 === command[1]);
    return script === undefined ? [] : [{ script, command }];
  });
}

function kindOf(chunk: Uint8Array): WireReply | null {
  const text = new TextDecoder().decode(chunk);
  if (text.includes(`\r\n${GRANT_MESSAGE} `)) return "message";
  if (new RegExp(`^\\*8\\r\\n:${QUEUED}\\r\\n`, "m").test(text)) return "queued";
  return new RegExp(`^\\*[45]\\r\\n:${GRANTED}\\r\\n`, "m").test(text) ? "granted" : null;
}
