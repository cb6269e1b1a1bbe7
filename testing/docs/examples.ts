/**
 * Runs and checks examples as a reader would: each as a script of its own, with the servers that it
 * names replaced by those of a test.
 *
 * @module
 */
import { copyFile, mkdir, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import {
  type Example,
  type ExampleServer,
  placeOf,
  publishedSources,
  serverOf,
} from "../../tools/docs/examples.ts";
import { importMapArgs } from "../../tools/import_map.ts";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { runCommand } from "../servers/command.ts";
import { freePort } from "../servers/ports.ts";
import { CONDITION_BOUND_MS, LONG_BOUND_MS } from "../time.ts";

/** The names that examples have for their servers, which are all on 127.0.0.1. */
const ADDRESSES: Readonly<Record<Exclude<ExampleServer, "none">, string>> = {
  "redis": "6379",
  "redis-cluster": "7000",
  "redis-sentinel": "port: 5000",
  "zookeeper": "zk1:2181,zk2:2181,zk3:2181",
};
/** The port that an example itself listens on. */
const OWN_PORT = "8080";
/** The service that an example sends requests to. */
const OTHER_SERVICE = "https://example.com";

const ROOT = new URL("../../", import.meta.url);
const RAN = /^(\S+)[#$](\d+)-\d+\.ts \.\.\. ok\b/gm;
const ALL_BOUND_MS = LONG_BOUND_MS;
const RUN_BOUND_MS = CONDITION_BOUND_MS;

/** The servers for one example. */
export interface ExamplePlace {
  /** Replaces the name of its server; not given for an example that needs no server. */
  readonly address?: string;
  /** Replaces the other service that it sends requests to. */
  readonly origin: string;
}

/** Puts a test's own servers in place of those that an example names. */
export function withServers(example: Example, { address, origin }: ExamplePlace): string {
  const server = serverOf(example);
  for (const [kind, name] of Object.entries(ADDRESSES)) {
    if (example.code.includes(name) === (kind === server)) continue;
    const problem = kind === server ? `must name its server ${name}` : `must not name ${name}`;
    throw new Error(`${placeOf(example)}: the example ${problem}, which the tests replace`);
  }
  return replaceEach(example.code, {
    ...server === "none" ? {} : { [ADDRESSES[server]]: address! },
    [OWN_PORT]: String(freePort()),
    [OTHER_SERVICE]: origin,
  });
}

/**
 * Replaces names in a text, all in one pass: a port such as 18080 that takes the place of one name contains
 * another.
 */
export function replaceEach(text: string, places: Readonly<Record<string, string>>): string {
  const names = Object.keys(places).map((name) => name.replaceAll(".", "\\."));
  return text.replaceAll(new RegExp(names.join("|"), "g"), (name) => places[name]!);
}

/**
 * Type-checks examples as they are, each with its own imports only.
 *
 * @throws {Error} If one has an error; its message names the place.
 */
export async function checkExamples(examples: readonly Example[]): Promise<void> {
  await inDirectory(async (dir, args) => {
    const paths = await Promise.all(
      examples.map((example) => writeExample(dir, example, example.code)),
    );
    const command = [process.execPath, "check", "-q", ...args, ...paths];
    const { success, output } = await runCommand(command, ALL_BOUND_MS, options());
    if (!success) throw new Error(legible(output, dir));
  });
}

/**
 * Runs `deno test --doc` on all published modules, without a type check.
 *
 * @returns The places of the examples that it ran.
 * @throws {Error} If one fails.
 */
export async function runDocTests(): Promise<string[]> {
  let output = "";
  await inDirectory(async (_dir, args) => {
    const test = ["test", "--doc", "-A", "--no-check", ...args, ...publishedSources()];
    const result = await runCommand([process.execPath, ...test], ALL_BOUND_MS, options());
    if (!result.success) throw new Error(`deno test --doc failed\n${result.output}`);
    output = result.output;
  });
  // file:///…/core/errors.ts#48-56.ts ... ok (1ms)
  return [...output.matchAll(RAN)].map(([, url = "", line]) =>
    `${url.replace(ROOT.href, "")}:${line}`
  );
}

/**
 * Runs an example as a script, which must end: one that keeps a connection open has no end.
 *
 * @throws {Error} If it fails or does not end in time; its message names the place of the example.
 */
export async function runExample(example: Example, place: ExamplePlace): Promise<void> {
  await inDirectory(async (dir, args) => {
    const path = await writeExample(dir, example, withServers(example, place));
    const command = [process.execPath, "run", "-A", "--no-check", ...args, path];
    const startMs = performance.now();
    const { success, output } = await runCommand(command, RUN_BOUND_MS, options());
    if (!success) throw failure(example, performance.now() - startMs, legible(output, dir));
  });
}

function failure(example: Example, tookMs: number, output: string): Error {
  const problem = tookMs < RUN_BOUND_MS
    ? "the example failed"
    : `the example did not end within ${RUN_BOUND_MS} ms: does it close its connections?`;
  return new Error(`${placeOf(example)}: ${problem}\n${output}`);
}

/** Does the work in a directory with a lock file of its own, which the examples may add to. */
async function inDirectory(work: (dir: string, args: string[]) => Promise<void>): Promise<void> {
  const dir = await makeTempDirectory();
  try {
    const lock = `${dir}/deno.lock`;
    await copyFile(new URL("deno.lock", ROOT), lock);
    const config = ["--config", fileURLToPath(new URL("deno.json", ROOT)), "--lock", lock];
    await work(dir, [...config, ...await importMapArgs()]);
  } finally {
    await rm(dir, { recursive: true });
  }
}

/** Writes a script whose lines have the numbers that they have in the example's module. */
async function writeExample(dir: string, { file, line }: Example, code: string): Promise<string> {
  const path = `${dir}/${file}#${line}.ts`.replace("#", "_");
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, "\n".repeat(line) + code);
  return path;
}

/** Names the modules instead of the scripts made of them. */
function legible(output: string, dir: string): string {
  return output.replaceAll(`file://${dir}/`, "").replaceAll(`${dir}/`, "")
    .replaceAll(/\.ts_\d+\.ts\b/g, ".ts");
}

function options() {
  return { cwd: fileURLToPath(ROOT), env: { NO_COLOR: "1" } };
}
