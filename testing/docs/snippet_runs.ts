/**
 * Runs snippets as a reader would: each as printed, as a program of its own, which must end. Only the
 * addresses are replaced.
 *
 * @module
 */
import { mkdir, writeFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import type { Snippet, SnippetUse } from "../../tools/docs/snippets.ts";
import { type ExampleServer, serverOf } from "../../tools/docs/examples.ts";
import { type SpawnedProcess, spawnProcess } from "../runtime/processes.ts";
import { freePort } from "../servers/ports.ts";
import { pause } from "../servers/wait.ts";
import { CONDITION_BOUND_MS } from "../time.ts";
import { parseCurl } from "./curl.ts";
import { replaceEach } from "./examples.ts";
import type { SnippetFolder, SnippetRuntime } from "./snippet_runtimes.ts";

/** The servers that a snippet connects to. */
export type SnippetServer = ExampleServer | "redis-tls" | "redis-sentinel-tls" | "zookeeper-tls";

/** The names that snippets have for their servers. */
const ADDRESSES: Readonly<Record<Exclude<SnippetServer, "none">, string>> = {
  "redis": "6379",
  "redis-tls": "6380",
  "redis-cluster": "7000",
  "redis-sentinel": "port: 5000",
  "redis-sentinel-tls": "port: 5001",
  "zookeeper": "zk1:2181,zk2:2181,zk3:2181",
  "zookeeper-tls": "zk1:2281,zk2:2281,zk3:2281",
};
/** The servers that are known by their address alone: the calls that connect are the same. */
const WITH_TLS = ["redis-tls", "redis-sentinel-tls", "zookeeper-tls"] as const;
/** The port that a snippet itself listens on. */
const OWN_PORT = "8080";
/** The service that a snippet sends requests to. */
const OTHER_SERVICE = "https://example.com";

/** Printed when a request that may wait uses its signal: harmless, and docs/frameworks.md says so. */
const NOTICE = /^Deno\.serve: request\.signal aborts on successful responses .*$/gm;

const RUN_BOUND_MS = CONDITION_BOUND_MS;
const ASK_EVERY_MS = 20;
const INVOCATION_MS = 30_000;

/** The texts that replace the addresses in a snippet. */
export interface SnippetPlace {
  /** Replaces the name of its server; not given for a snippet that needs no server. */
  readonly address?: string;
  /** Replaces the other service that it sends requests to. */
  readonly origin: string;
  /** Files that it reads, by their names. */
  readonly files?: Readonly<Record<string, string>>;
}

/** The server that must be up for a snippet. */
export function snippetServer(snippet: Snippet): SnippetServer {
  const tls = WITH_TLS.find((kind) => snippet.code.includes(ADDRESSES[kind]));
  return tls ?? serverOf(snippet);
}

/**
 * Replaces the addresses in a text of a snippet, and nothing else.
 *
 * @throws {Error} If the snippet does not name its server, or names another.
 */
export function withPlace(snippet: Snippet, place: SnippetPlace, port: number): Snippet {
  const server = snippetServer(snippet);
  for (const [kind, name] of Object.entries(ADDRESSES)) {
    if (snippet.code.includes(name) === (kind === server)) continue;
    const problem = kind === server ? `must name its server ${name}` : `must not name ${name}`;
    throw new Error(`${titleOf(snippet)}: the snippet ${problem}, which the tests replace`);
  }
  const places = {
    ...server === "none" ? {} : { [ADDRESSES[server]]: place.address! },
    [OWN_PORT]: String(port),
    [OTHER_SERVICE]: place.origin,
  };
  const replaced = (text: string) => replaceEach(text, places);
  const { use } = snippet;
  const replacedUse = "curl" in use ? { ...use, curl: replaced(use.curl) } : use;
  return { ...snippet, code: replaced(snippet.code), use: replacedUse };
}

/** The place of a snippet, as `README.md:65`. */
export function titleOf({ file, line }: Snippet): string {
  return `${file}:${line}`;
}

/**
 * Runs a snippet.
 *
 * @param boundMs How long it may take, in ms.
 * @throws {Error} If it fails, prints an error, does not answer, or does not end; its message names the
 * place of the snippet and the runtime.
 */
export async function runSnippet(
  snippet: Snippet,
  runtime: SnippetRuntime,
  place: SnippetPlace,
  boundMs = RUN_BOUND_MS,
): Promise<void> {
  await using folder = await runtime.folder();
  const placed = withPlace(snippet, place, freePort());
  const script = await writeSnippet(placed, folder, place.files ?? {});
  const child = spawnProcess(folder.command(script), {
    cwd: folder.path,
    env: { NO_COLOR: "1", XDG_RUNTIME_DIR: `${folder.path}/runtime` },
    stdout: "pipe",
    stderr: "pipe",
  });
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    child.kill("SIGKILL");
  }, boundMs);
  const outputs = Promise.all([text(child.stdout!), text(child.stderr!)]);
  const answer = await use(placed.use, child);
  const { code } = await child.ended;
  clearTimeout(timer);
  const [output, allErrors] = await outputs;
  const errors = allErrors.replaceAll(NOTICE, "").trimStart();
  const problem = isLate ? "did not end" : answer ??
    (code !== 0 ? `exited with ${code}` : errors !== "" ? "printed errors" : undefined);
  if (problem === undefined) return;
  throw new Error(
    `${titleOf(snippet)}: the snippet ${problem} on ${runtime.name}\n${output}${errors}`,
  );
}

/** Sends its request to a server, and ends it. Returns what was wrong with the answer. */
async function use(use: SnippetUse, child: SpawnedProcess): Promise<string | undefined> {
  if (use.kind !== "server") return undefined;
  const status = await ask(use.curl, child.ended);
  child.kill("SIGTERM");
  if (status === undefined) return "ended before it answered";
  return status >= 200 && status < 300 ? undefined : `answered ${status} to ${use.curl}`;
}

/** Sends a request until the server listens or ends; returns the status of the answer. */
async function ask(curl: string, ended: Promise<unknown>): Promise<number | undefined> {
  const { url, ...request } = parseCurl(curl);
  let hasEnded = false;
  void ended.then(() => hasEnded = true);
  while (!hasEnded) {
    try {
      const response = await fetch(url, request);
      await response.text();
      return response.status;
    } catch {
      await pause(ASK_EVERY_MS);
    }
  }
  return undefined;
}

/** Writes a snippet so that its lines have the numbers that they have on the page. */
async function writeSnippet(
  snippet: Snippet,
  { path }: SnippetFolder,
  files: Readonly<Record<string, string>>,
): Promise<string> {
  const name = `${titleOf(snippet).replaceAll(/\W/g, "_")}.mjs`;
  await mkdir(path, { recursive: true });
  for (const [file, content] of Object.entries(files)) await writeFile(`${path}/${file}`, content);
  await writeFile(`${path}/${name}`, "\n".repeat(snippet.line) + snippet.code);
  const caller = callerOf(`./${name}`, snippet.use);
  if (caller === undefined) return `${path}/${name}`;
  await writeFile(`${path}/caller.mjs`, caller);
  return `${path}/caller.mjs`;
}

/** The program that calls what a snippet exports; `undefined` if the snippet is a program. */
function callerOf(module: string, use: SnippetUse): string | undefined {
  if (use.kind === "lambda") return invocationOf(module, use.payload);
  return use.kind === "route" ? requestOf(module, use.curl) : undefined;
}

/** Calls a route as Next.js does, in a folder such as `orders/[id]`. */
function requestOf(module: string, curl: string): string {
  const { url, ...init } = parseCurl(curl);
  const id = new URL(url).pathname.split("/").at(-1);
  return `
import * as route from "${module}";
const request = new Request(${JSON.stringify(url)}, ${JSON.stringify(init)});
const params = Promise.resolve(${JSON.stringify({ id })});
const response = await route.${init.method}(request, { params });
if (!response.ok) throw new Error(\`The route answered \${response.status}\`);
`;
}

/** Invokes a function as Lambda does, which also ends its process. */
function invocationOf(module: string, payload: string): string {
  return `
import { handler } from "${module}";
const answer = await handler(${payload}, { getRemainingTimeInMillis: () => ${INVOCATION_MS} });
if (answer.status !== 200) throw new Error(JSON.stringify(answer));
process.exit(0);
`;
}
