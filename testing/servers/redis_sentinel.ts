/**
 * Starts a primary, a replica and the sentinels that watch them, for tests: failover included.
 *
 * @module
 */

import { writeFile } from "node:fs/promises";
import { type OwnSource, serverSource } from "./find.ts";
import { findLocalRedis } from "./find_local.ts";
import { type OwnServer, startOwnServer } from "./own_server.ts";
import { freePort } from "./ports.ts";
import { isServing, type RedisServer, startRedis } from "./redis.ts";
import { connectResp } from "./resp.ts";
import { waitUntil } from "./wait.ts";
import { scaled } from "../time.ts";

/** The name by which the sentinels know the primary. */
export const PRIMARY_NAME = "mymaster";

/** A program of this machine that serves Redis. */
export type LocalSource = Extract<OwnSource, { kind: "local" }>;

const SENTINELS = 3;
const QUORUM = 2;
/** Longer than a busy machine stops a server: otherwise the sentinels fail over unasked. */
const DOWN_AFTER_MS = scaled(1_000);
const FAILOVER_TIMEOUT_MS = scaled(3_000);

/** A primary and a replica, watched by sentinels. */
export interface RedisSentinels extends AsyncDisposable {
  /** The server that was started as the primary; a test may kill and restart it. */
  readonly primary: RedisServer;
  /** The server that was started as its replica. */
  readonly replica: RedisServer;
  /** The addresses of the sentinels, for clients. */
  readonly sentinels: readonly { readonly host: string; readonly port: number }[];
  /** Sends a command to each of the sentinels. */
  sentinelCommand(...args: string[]): Promise<void>;
  /** Kills all servers and sentinels. */
  killAll(): Promise<void>;
  /** Resolves when the sentinels agree that this server is the primary, and it accepts writes. */
  promoted(server: RedisServer): Promise<void>;
}

/** Why no sentinels can be started on this machine; `undefined` if they can. */
export async function redisSentinelSkip(): Promise<string | undefined> {
  if (await localRedisSource() !== undefined) return undefined;
  return "sentinels must reach the servers, so redis-server must be installed here";
}

/** The certificate of all servers, for TLS on ports of their own. */
export interface ServerCertificate {
  /** The path of the authority's certificate. */
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

/**
 * Starts all servers. Resolves when the sentinels know the replica and each other.
 *
 * @param certificate If given, the servers and sentinels talk TLS to each other, and to clients: `sentinels`
 * has the addresses for it.
 */
export async function startRedisSentinels(
  certificate?: ServerCertificate,
): Promise<RedisSentinels> {
  const source = await localRedisSource();
  if (source === undefined) throw new Error("Cannot start sentinels: install redis-server");
  await using stack = new AsyncDisposableStack();
  const args = ["--repl-diskless-sync-delay", "0"];
  const primaryTls = tlsSettings(certificate);
  const primary = stack.use(await startRedis({ args: [...args, ...argsOf(primaryTls)], source }));
  const primaryPort = primaryTls?.port ?? primary.port;
  const replicaArgs = ["--replicaof", primary.hostname, String(primaryPort)];
  replicaArgs.push(...args, ...argsOf(tlsSettings(certificate)));
  const replica = stack.use(await startRedis({ args: replicaArgs, source }));
  await waitUntil("the replica is in sync", () => isInSync(replica));
  const sentinels: OwnServer[] = [];
  const addresses: { host: string; port: number }[] = [];
  while (sentinels.length < SENTINELS) {
    const tls = tlsSettings(certificate);
    const sentinel = stack.use(await startSentinel(source, primary.hostname, primaryPort, tls));
    sentinels.push(sentinel);
    addresses.push({ host: sentinel.hostname, port: tls?.port ?? sentinel.port });
  }
  for (const sentinel of sentinels) {
    await waitUntil("the sentinel knows all others", () => knowsAll(sentinel));
  }
  const owned = stack.move();
  return {
    primary,
    replica,
    sentinels: addresses,
    sentinelCommand: async (...args) => {
      for (const { hostname, port } of sentinels) {
        using connection = await connectResp(`redis://${hostname}:${port}`);
        await connection.command(...args);
      }
    },
    async killAll() {
      await Promise.all([...sentinels, primary, replica].map((server) => server.kill("SIGKILL")));
    },
    async promoted(server) {
      for (const sentinel of sentinels) {
        await waitUntil("the sentinel reports the new primary", async () => {
          const address = await ask(sentinel, "GET-MASTER-ADDR-BY-NAME", PRIMARY_NAME);
          return String((address as string[])[1]) === String(server.port);
        });
      }
      await waitUntil("the new primary accepts writes", async () => {
        // A sentinel closes all connections of a server whose role it changes.
        const info = await server.command("INFO", "replication").catch(() => "");
        return String(info).includes("role:master");
      });
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * `redis-server` as a program of this machine; `undefined` if there is none. A container announces an
 * address that others cannot reach, and cannot read files of a test.
 */
export async function localRedisSource(): Promise<LocalSource | undefined> {
  const { own } = await serverSource("redis");
  if (own?.kind === "local") return own;
  const local = await findLocalRedis();
  return local && { kind: "local", command: local.command };
}

/** The settings of one server with TLS. */
interface TlsSettings {
  readonly port: number;
  readonly values: readonly (readonly [name: string, value: string])[];
}

function tlsSettings(certificate?: ServerCertificate): TlsSettings | undefined {
  if (certificate === undefined) return undefined;
  const { ca, cert, key } = certificate;
  const port = freePort();
  const files = [["tls-ca-cert-file", ca], ["tls-cert-file", cert], ["tls-key-file", key]] as const;
  return { port, values: [["tls-port", String(port)], ["tls-replication", "yes"], ...files] };
}

function argsOf(tls?: TlsSettings): string[] {
  return tls?.values.flatMap(([name, value]) => [`--${name}`, value]) ?? [];
}

/** A sentinel writes what it learns into its configuration file, so it needs one of its own. */
function startSentinel(
  source: OwnSource,
  primaryHost: string,
  primaryPort: number,
  tls?: TlsSettings,
): Promise<OwnServer> {
  return startOwnServer({
    title: "Redis Sentinel",
    source,
    async localArguments({ port, directory }) {
      const path = `${directory}/sentinel.conf`;
      const lines = [
        `port ${port}`,
        "bind 127.0.0.1",
        `dir ${directory}`,
        ...tls?.values.map((setting) => setting.join(" ")) ?? [],
        `sentinel monitor ${PRIMARY_NAME} ${primaryHost} ${primaryPort} ${QUORUM}`,
        `sentinel down-after-milliseconds ${PRIMARY_NAME} ${DOWN_AFTER_MS}`,
        `sentinel failover-timeout ${PRIMARY_NAME} ${FAILOVER_TIMEOUT_MS}`,
      ];
      await writeFile(path, `${lines.join("\n")}\n`);
      return [path, "--sentinel"];
    },
    containerOptions: [],
    containerArguments: [],
    containerPort: 0,
    isServing: ({ port }, pid) => isServing(`redis://127.0.0.1:${port}`, pid),
  });
}

async function isInSync({ command }: RedisServer): Promise<boolean> {
  return String(await command("INFO", "replication")).includes("master_link_status:up");
}

async function knowsAll(sentinel: OwnServer): Promise<boolean> {
  const known = fieldsOf(await ask(sentinel, "MASTER", PRIMARY_NAME));
  return known.get("num-slaves") === "1" && known.get("flags") === "master" &&
    known.get("num-other-sentinels") === String(SENTINELS - 1);
}

/** Sends a SENTINEL command. */
async function ask({ hostname, port }: OwnServer, ...args: string[]): Promise<unknown> {
  using connection = await connectResp(`redis://${hostname}:${port}`);
  return await connection.command("SENTINEL", ...args);
}

function fieldsOf(reply: unknown): Map<string, string> {
  const list = reply as string[];
  const fields = new Map<string, string>();
  for (let i = 0; i < list.length; i += 2) fields.set(list[i]!, list[i + 1]!);
  return fields;
}
