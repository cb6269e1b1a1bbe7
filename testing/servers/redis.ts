/**
 * Starts Redis servers for tests, or connects to the one given by `REDIS_URL`.
 *
 * @module
 */

import type { Signal } from "../runtime/processes.ts";
import { type OwnSource, ownSource, serverSource } from "./find.ts";
import { type OwnServer, type OwnServerSpec, startOwnServer } from "./own_server.ts";
import { connectResp, redisAddress, type RespConnection } from "./resp.ts";
import { bounded } from "./wait.ts";
import { scaled } from "../time.ts";

const PROBE_BOUND_MS = scaled(1_000);
const NO_FILES = ["--save", "", "--appendonly", "no"];

/** Sends commands of an observer over its own connection, which stays open. */
export type RedisCommand = (...args: (string | number)[]) => Promise<unknown>;

/** A Redis server that belongs to one test. */
export interface RedisServer extends OwnServer {
  readonly url: string;
  /** Sends one command at a time; rejects with the server's error. */
  readonly command: RedisCommand;
}

/** A Redis server for the conformance suite; others may use it too. */
export interface ConformanceRedis extends AsyncDisposable {
  readonly url: string;
  readonly hostname: string;
  readonly port: number;
  /** Random; every key of the test must contain it. */
  readonly keyPrefix: string;
  /** Sends one command at a time; rejects with the server's error. */
  readonly command: RedisCommand;
}

/** Settings of a test's own Redis server. */
export interface RedisServerOptions {
  /** Additional arguments. */
  readonly args?: readonly string[];
  /** How to start it; as found on this machine by default. */
  readonly source?: OwnSource;
  /** Additional environment variables; for a local server only. */
  readonly env?: Readonly<Record<string, string>>;
  /** Chooses its port; any free one by default. */
  choosePort?(): number;
}

/** Starts a throw-away Redis server. */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const server = await startOwnServer(await specOf(options));
  const url = urlOf(server.port);
  const observer = observe(url);
  // Connect now: otherwise the first test would open a connection that outlives it.
  await observer.command("PING");
  const { kill, restart, [Symbol.asyncDispose]: dispose } = server;
  // Extend the object instead of copying it: the getter `pid` changes with a restart.
  return Object.assign(server, {
    url,
    command: observer.command,
    kill(signal?: Signal) {
      observer[Symbol.dispose]();
      return kill(signal);
    },
    async restart() {
      observer[Symbol.dispose]();
      await restart();
      await observer.command("PING");
    },
    [Symbol.asyncDispose]() {
      observer[Symbol.dispose]();
      return dispose();
    },
  });
}

async function specOf(options: RedisServerOptions): Promise<OwnServerSpec> {
  const args = [...NO_FILES, ...options.args ?? []];
  return {
    title: "Redis",
    source: options.source ?? await ownSource("redis"),
    ...options.choosePort && { choosePort: options.choosePort },
    ...options.env && { env: options.env },
    localArguments: ({ port, directory }) => [
      ...["--port", String(port), "--bind", "127.0.0.1", "--dir", directory],
      ...args,
    ],
    containerOptions: [],
    containerArguments: ["redis-server", ...args],
    containerPort: 6379,
    isServing: ({ port }, pid) => isServing(urlOf(port), pid),
  };
}

/** The server given by `REDIS_URL`, or a new one. */
export async function conformanceRedis(): Promise<ConformanceRedis> {
  const { shared } = await serverSource("redis");
  if (shared === undefined) return Object.assign(await startRedis(), { keyPrefix: randomPrefix() });
  const redis = sharedRedis(shared);
  await redis.command("PING");
  return redis;
}

/** A server that others use too. Disposal removes only keys that contain the prefix. */
export function sharedRedis(url: string): ConformanceRedis {
  const keyPrefix = randomPrefix();
  const observer = observe(url);
  return {
    url,
    ...redisAddress(url),
    keyPrefix,
    command: observer.command,
    async [Symbol.asyncDispose]() {
      try {
        await removeKeys(keyPrefix, observer.command);
      } finally {
        observer[Symbol.dispose]();
      }
    },
  };
}

function randomPrefix(): string {
  return `holdfast-test-${crypto.randomUUID()}:`;
}

/** Removes all keys that contain the prefix; auxiliary keys have more text in front of it. */
async function removeKeys(keyPrefix: string, command: RedisCommand): Promise<void> {
  let cursor = "0";
  do {
    const reply = await command("SCAN", cursor, "MATCH", `*${keyPrefix}*`, "COUNT", 1000);
    const [next, keys] = reply as [string, string[]];
    if (keys.length > 0) await command("DEL", ...keys);
    cursor = next;
  } while (cursor !== "0");
}

function observe(url: string): Disposable & { command: RedisCommand } {
  let connecting: Promise<RespConnection> | undefined;
  let open: RespConnection | undefined;
  return {
    async command(...args) {
      if (open?.isOpen) return await open.command(...args);
      connecting ??= connectResp(url).finally(() => connecting = undefined);
      open = await connecting;
      return await open.command(...args);
    },
    [Symbol.dispose]: () => open?.[Symbol.dispose](),
  };
}

/** Whether the server at the URL serves, and is this process. */
export async function isServing(url: string, pid: number | undefined): Promise<boolean> {
  try {
    return await bounded("The probe", PROBE_BOUND_MS, async (signal) => {
      using connection = await connectResp(url, signal);
      await connection.command("PING"); // refused while it loads its data
      const info = String(await connection.command("INFO", "server"));
      return pid === undefined || info.includes(`\r\nprocess_id:${pid}\r\n`);
    });
  } catch {
    return false;
  }
}

function urlOf(port: number): string {
  return `redis://127.0.0.1:${port}`;
}
