/**
 * Finds the servers that tests and the demo use: given by URL, in Docker, or installed here.
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

const SHARED_BOUND_MS = 5_000;

/** A kind of server. */
export type ServerKind = "redis" | "zookeeper";

/** Where servers of one kind come from; serialisable. */
export interface ServerSource {
  /** A server that others use too: for the conformance suite, under a random prefix. */
  readonly shared?: string;
  /** What a test starts servers of its own with. */
  readonly own?: OwnSource;
}

/** How an own server is started. */
export type OwnSource =
  | { readonly kind: "docker"; readonly image: string }
  | { readonly kind: "local"; readonly command: readonly string[] };

/** The outcome of a search. */
export interface FoundServer {
  readonly source: ServerSource;
  /** Says in one line what was chosen. */
  readonly line: string;
}

interface KindFacts {
  readonly title: string;
  readonly urlVariable: string;
  /** Hands a source found by one process to its children. */
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

/** The name of the environment variable that hands a source to child processes. */
export function sourceVariable(kind: ServerKind): string {
  return FACTS[kind].sourceVariable;
}

/** Searches; rejects, saying what to install, if there is no way to get such a server. */
export async function findServer(kind: ServerKind): Promise<FoundServer> {
  const facts = FACTS[kind];
  const shared = process.env[facts.urlVariable];
  if (shared) await checkShared(facts, shared);
  const own = await findOwn(kind, facts);
  if (!shared && !own) throw new Error(notFound(facts));
  const ownPart = own ? own.description : "no server of their own for the other tests";
  const sharedPart = `${facts.urlVariable} for the conformance suite, `;
  return {
    source: { ...shared && { shared }, ...own && { own: own.source } },
    line: `${facts.title}: ${shared ? sharedPart : ""}${ownPart}`,
  };
}

const sources = new Map<ServerKind, Promise<ServerSource>>();

/** The source that the test runner has handed down; searches once where there is none. */
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

/** What to start an own server with; rejects, saying what to install, if there is no way. */
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
    ? ` It is not installed now because of --no-install or ${NO_INSTALL_VARIABLE}.`
    : "";
  return `No ${title} was found.${refused} Install ${needs}, or start Docker, or set ` +
    `${urlVariable} to a running server (used for the conformance suite only)`;
}

async function checkShared(facts: KindFacts, url: string): Promise<void> {
  try {
    await bounded("The answer", SHARED_BOUND_MS, (signal) => facts.check(url, signal));
  } catch (cause) {
    const problem = `${facts.urlVariable} is set, but no ${facts.title} answers there`;
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
