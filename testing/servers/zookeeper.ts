/**
 * Starts ZooKeeper servers for tests, or uses the one given by `ZOOKEEPER_CONNECT`.
 *
 * @module
 */

import { mkdir, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { type OwnSource, ownSource, serverSource } from "./find.ts";
import type { Certificate } from "./certificates.ts";
import { type OwnServer, type ServerPlace, startOwnServer } from "./own_server.ts";
import { freePort } from "./ports.ts";
import { closer, connectLocally } from "./raw_sockets.ts";
import { bounded } from "./wait.ts";
import { removeTree } from "./zookeeper_cleanup.ts";
import { CONDITION_BOUND_MS, scaled } from "../time.ts";

/** Bounds of successive attempts: a server that is still starting may never answer the first ones. */
export const WORD_BOUNDS_MS = [scaled(300), scaled(1_000), scaled(3_000)] as const;
const SHARED_MEMORY = "/dev/shm";

/** Settings of a test's own ZooKeeper server. */
export interface ZooKeeperOptions {
  /** @default {100} */
  readonly tickTimeMs?: number;
  /** @default {200} */
  readonly minSessionTimeoutMs?: number;
  /** @default {60_000} */
  readonly maxSessionTimeoutMs?: number;
  /** How to start it; as found on this machine by default. */
  readonly source?: OwnSource;
  /** Opens a second port, with TLS. For a local server only. */
  readonly tls?: ServerTls;
  readonly extra?: {
    readonly settings?: Settings;
    /** Files to write into its directory, by path. For a local server only. */
    readonly files?: Readonly<Record<string, string>>;
  };
}

/** How a server identifies itself and its clients on the port with TLS. */
export interface ServerTls {
  readonly certificate: Certificate;
  /** The certificate, in PEM, of the authority of the clients' certificates. */
  readonly ca: string;
  /** Whether clients need a certificate; if not, one that is shown is still checked. */
  readonly needsClientCertificate?: boolean;
}

/** A standalone ZooKeeper server that belongs to one test. */
export interface ZooKeeperServer extends OwnServer {
  readonly connectString: string;
  /** The port with TLS; 0 if there is none. */
  readonly securePort: number;
  /**
   * Sends a four-letter word such as `srvr`, `cons`, `dump` or `wchp`; resolves with the answer.
   *
   * @param boundsMs Of successive attempts. The last default is for a stalled machine: a test that asks a server
   * which may be down passes {@linkcode WORD_BOUNDS_MS}.
   */
  fourLetterWord(word: string, boundsMs?: readonly number[]): Promise<string>;
}

/** A ZooKeeper server for the conformance suite; others may use it too. */
export interface ConformanceZooKeeper extends AsyncDisposable {
  readonly connectString: string;
  /** Random; every znode of the test must be below it. */
  readonly rootPath: string;
}

/** Starts a throw-away ZooKeeper server. */
export async function startZooKeeper(options: ZooKeeperOptions = {}): Promise<ZooKeeperServer> {
  const settings = {
    tickTime: options.tickTimeMs ?? 100,
    minSessionTimeout: options.minSessionTimeoutMs ?? 200,
    maxSessionTimeout: options.maxSessionTimeoutMs ?? 60_000,
  };
  // Another one in each attempt to start.
  let securePort = 0;
  const server = await startOwnServer({
    title: "ZooKeeper",
    source: options.source ?? await ownSource("zookeeper"),
    ...await isDirectory(SHARED_MEMORY) && { baseDirectory: SHARED_MEMORY },
    localArguments: async (place) => {
      const { settings: more = {}, files = {} } = options.extra ?? {};
      await writeFiles(place, files);
      const secure = options.tls && await writeTls(place, securePort = freePort(), options.tls);
      return [await writeConfiguration(place, { ...settings, ...more, ...secure })];
    },
    containerOptions: containerOptions({ ...settings, ...options.extra?.settings }),
    containerArguments: [],
    containerPort: 2181,
    isServing,
  });
  const connectString = `127.0.0.1:${server.port}`;
  // Extend the object instead of copying it: the getter `pid` changes with a restart.
  return Object.assign(server, {
    connectString,
    securePort,
    fourLetterWord: (word: string, boundsMs?: readonly number[]) =>
      fourLetterWord(server.port, word, boundsMs),
  });
}

/** The server given by `ZOOKEEPER_CONNECT`, or a new one. */
export async function conformanceZooKeeper(): Promise<ConformanceZooKeeper> {
  const { shared } = await serverSource("zookeeper");
  if (shared !== undefined) return sharedZooKeeper(shared);
  return Object.assign(await startZooKeeper(), { rootPath: randomPath() });
}

/** A server that others use too. Disposal removes only the root path. */
export function sharedZooKeeper(connectString: string): ConformanceZooKeeper {
  const rootPath = randomPath();
  return {
    connectString,
    rootPath,
    [Symbol.asyncDispose]: () => removeTree(connectString, rootPath),
  };
}

function randomPath(): string {
  return `/holdfast-test-${crypto.randomUUID()}`;
}

type Settings = Readonly<Record<string, number | string>>;

async function writeFiles(
  { directory }: ServerPlace,
  files: Readonly<Record<string, string>>,
): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    const path = `${directory}/${name}`;
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }
}

/** Writes the certificates; returns the settings. */
async function writeTls(
  place: ServerPlace,
  port: number,
  { certificate: { cert, key }, ca, needsClientCertificate = false }: ServerTls,
): Promise<Settings> {
  await writeFiles(place, { "tls/server.pem": key + cert, "tls/clients.pem": ca });
  return {
    secureClientPort: port,
    secureClientPortAddress: "127.0.0.1",
    serverCnxnFactory: "org.apache.zookeeper.server.NettyServerCnxnFactory",
    "ssl.keyStore.location": `${place.directory}/tls/server.pem`,
    "ssl.keyStore.type": "PEM",
    "ssl.trustStore.location": `${place.directory}/tls/clients.pem`,
    "ssl.trustStore.type": "PEM",
    "ssl.clientAuth": needsClientCertificate ? "need" : "want",
  };
}

async function writeConfiguration(
  { port, directory }: ServerPlace,
  settings: Settings,
): Promise<string> {
  const lines = [
    `dataDir=${directory}/data`,
    `clientPort=${port}`,
    "clientPortAddress=127.0.0.1",
    "maxClientCnxns=0",
    "admin.enableServer=false",
    "4lw.commands.whitelist=*",
    ...settingLines(settings),
  ];
  const file = `${directory}/zoo.cfg`;
  await writeFile(file, `${lines.join("\n")}\n`);
  return file;
}

function containerOptions({ tickTime, ...others }: Settings): string[] {
  const variables = [
    `ZOO_TICK_TIME=${tickTime}`,
    "ZOO_MAX_CLIENT_CNXNS=0",
    "ZOO_ADMINSERVER_ENABLED=false",
    "ZOO_4LW_COMMANDS_WHITELIST=*",
    `ZOO_CFG_EXTRA=${settingLines(others as Settings).join(" ")}`,
  ];
  return variables.flatMap((variable) => ["-e", variable]);
}

function settingLines(settings: Settings): string[] {
  return Object.entries(settings).map(([name, value]) => `${name}=${value}`);
}

/** `ruok` answers too early. `conf` reports the directory, which identifies this server. */
async function isServing({ port, directory }: ServerPlace, pid: number | undefined) {
  try {
    if (!(await askOnce(port, "srvr")).includes("Mode:")) return false;
    return pid === undefined || (await askOnce(port, "conf")).includes(directory);
  } catch {
    return false;
  }
}

async function fourLetterWord(
  port: number,
  word: string,
  boundsMs: readonly number[] = [...WORD_BOUNDS_MS, CONDITION_BOUND_MS],
): Promise<string> {
  let lastError: unknown;
  for (const boundMs of boundsMs) {
    try {
      return await askOnce(port, word, boundMs);
    } catch (error) {
      lastError = error;
    }
  }
  throw lastError;
}

function askOnce(port: number, word: string, boundMs: number = WORD_BOUNDS_MS[0]) {
  return bounded(`The answer to ${word}`, boundMs, async (signal) => {
    const socket = await connectLocally({ hostname: "127.0.0.1", port }, signal);
    using _closing = closer(socket, signal);
    await socket.write(new TextEncoder().encode(word));
    const decoder = new TextDecoder();
    const chunk = new Uint8Array(16_384);
    let text = "";
    for (let count; (count = await socket.read(chunk)) !== null;) {
      text += decoder.decode(chunk.subarray(0, count), { stream: true });
    }
    return text;
  });
}

async function isDirectory(path: string): Promise<boolean> {
  return await stat(path).then((info) => info.isDirectory(), () => false);
}
