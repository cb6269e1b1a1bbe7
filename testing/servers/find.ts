/**
 * Finds the servers that tests and the demo use: given by URL, in Docker, or installed locally.
 *
 * @module
 */

import process from "node:process";
import { connectTcp } from "../runtime/sockets.ts";
import { findDocker } from "./find_docker.ts";
import { installWithApt, isInstallRefused, NO_INSTALL_VARIABLE } from "./find_apt.ts";
import { findLocalRedis, findLocalZooKeeper, type LocalProgram } from "./find_local.ts";
import { connectResp } from "./resp.ts";
import { bounded } from "./wait.ts";
import { scaled } from "../time.ts";

const SHARED_BOUND_MS = scaled(5_000);

/** A kind of server. */
export type ServerKind = "redis" | "zookeeper";

/** Where servers of one kind come from. Serialisable, as it is passed to child processes. */
export interface ServerSource {
  /** A server that others use too. Only the conformance suite runs there, under a random prefix. */
  readonly shared?: string;
  /** How a test starts its own servers. */
  readonly own?: OwnSource;
}

/** How a test's own server is started. */
export type OwnSource =
  | { readonly kind: "docker"; readonly image: string }
  | { readonly kind: "local"; readonly command: readonly string[] };

/** The outcome of a search. */
export interface FoundServer {
  readonly source: ServerSource;
  /** Describes the choice in one line. */
  readonly line: string;
}

interface KindFacts {
  readonly title: string;
  readonly urlVariable: string;
  /** The environment variable that passes a source to child processes. */
  readonly sourceVariable: string;
  readonly aptPackages: readonly string[];
  readonly needs: string;
  findLocal(): Promise<LocalProgram | undefined>;
  /** Rejects if no server answers there. */
  check(url: string, signal: AbortSignal): Promise<void>;
}

const FACTS: Record<ServerKind, KindFacts> = {
  redis: {
    title: "Redis",
    urlVariable: "REDIS_URL",
    sourceVariable: "HOLDFAST_REDIS_SOURCE",
    aptPackages: ["redis-server"],
    needs: "redis-server (Debian and Ubuntu: apt-get install redis-server)",
    findLocal: findLocalRedis,
    check: checkRedis,
  },
  zookeeper: {
    title: "ZooKeeper",
    urlVariable: "ZOOKEEPER_CONNECT",
    sourceVariable: "HOLDFAST_ZOOKEEPER_SOURCE",
    aptPackages: ["zookeeper"],
    needs: "Java and ZooKeeper (Debian and Ubuntu: apt-get install zookeeper; " +
      "elsewhere unpack its archive and set ZOOKEEPER_HOME)",
    findLocal: findLocalZooKeeper,
    check: checkZooKeeper,
  },
};

/** The name of the environment variable that passes a source to child processes. */
export function sourceVariable(kind: ServerKind): string {
  return FACTS[kind].sourceVariable;
}

/**
 * Searches for a server.
 *
 * @throws {Error} If there is none; the message says what to install.
 */
export async function findServer(kind: ServerKind): Promise<FoundServer> {
  const facts = FACTS[kind];
  const shared = process.env[facts.urlVariable];
  if (shared) await checkShared(facts, shared);
  const own = await findOwn(kind, facts);
  if (!shared && !own) throw new Error(notFound(facts));
  const ownPart = own ? own.description : "no server for the other tests";
  const sharedPart = `${facts.urlVariable} for the conformance suite, `;
  return {
    source: { ...shared && { shared }, ...own && { own: own.source } },
    line: `${facts.title}: ${shared ? sharedPart : ""}${ownPart}`,
  };
}

const sources = new Map<ServerKind, Promise<ServerSource>>();

/** The source that the test runner passed on; without a runner, searches once. */
export function serverSource(kind: ServerKind): Promise<ServerSource> {
  let source = sources.get(kind);
  if (source === undefined) {
    const given = process.env[FACTS[kind].sourceVariable];
    source = given
      ? Promise.resolve(JSON.parse(given) as ServerSource)
      : findServer(kind).then((found) => found.source);
    sources.set(kind, source);
  }
  return source;
}

/**
 * How to start a server of one's own.
 *
 * @throws {Error} If there is no way; the message says what to install.
 */
export async function ownSource(kind: ServerKind): Promise<OwnSource> {
  const { own } = await serverSource(kind);
  if (own === undefined) throw new Error(notFound(FACTS[kind]));
  return own;
}

interface FoundOwn {
  readonly source: OwnSource;
  readonly description: string;
}

async function findOwn(kind: ServerKind, facts: KindFacts): Promise<FoundOwn | undefined> {
  const image = await findDocker(kind);
  if (image) return { source: { kind: "docker", image }, description: `Docker image ${image}` };
  let local = await facts.findLocal();
  let origin = "local";
  if (!local && await installWithApt(facts.title, facts.aptPackages)) {
    local = await facts.findLocal();
    origin = "just installed";
  }
  if (!local) return undefined;
  return {
    source: { kind: "local", command: local.command },
    description: `${origin} ${local.description}`,
  };
}

function notFound({ title, urlVariable, needs }: KindFacts): string {
  const refused = isInstallRefused()
    ? ` It was not installed because of --no-install or ${NO_INSTALL_VARIABLE}.`
    : "";
  return `Cannot find ${title}.${refused} Install ${needs}, or start Docker, or set ` +
    `${urlVariable} to a running server (used for the conformance suite only)`;
}

async function checkShared(facts: KindFacts, url: string): Promise<void> {
  try {
    await bounded("The answer", SHARED_BOUND_MS, (signal) => facts.check(url, signal));
  } catch (cause) {
    const problem = `${facts.urlVariable} is set, but ${facts.title} does not answer there`;
    throw new Error(`${problem}: start that server or unset ${facts.urlVariable}`, { cause });
  }
}

async function checkRedis(url: string, signal: AbortSignal): Promise<void> {
  using connection = await connectResp(url, signal);
  await connection.command("PING");
}

async function checkZooKeeper(connectString: string, signal: AbortSignal): Promise<void> {
  const hosts = connectString.replace(/\/.*$/, "").split(",");
  await Promise.any(hosts.map(async (host) => {
    const { hostname, port } = new URL(`tcp://${host.trim()}`);
    (await connectTcp({ hostname, port: Number(port || 2181) }, signal)).close();
  }));
}
