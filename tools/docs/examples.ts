/**
 * Reads the code blocks in the comments of the published modules, and tells what runs each.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { filesIn } from "../architecture/imports.ts";

const ROOT = new URL("../../", import.meta.url);

/** A code block of a comment. */
export interface Example {
  /** The path of its module, from the root. */
  readonly file: string;
  /** The line of its opening fence. */
  readonly line: number;
  /** The words behind the opening fence: `ts`, or `ts ignore` for what `deno test --doc` leaves out. */
  readonly info: string;
  readonly code: string;
}

/** The servers that an example connects to. */
export type ExampleServer = "redis" | "redis-cluster" | "redis-sentinel" | "zookeeper" | "none";

/** The calls that connect to each kind of server; the first that an example has decides. */
const CONNECTS: readonly (readonly [ExampleServer, RegExp])[] = [
  ["zookeeper", /\bnew ZooKeeperLock\(/],
  ["redis-cluster", /\b(?:createCluster|new Cluster)\(/],
  ["redis-sentinel", /\b(?:createSentinel\(|sentinels: \[)/],
  ["redis", /\b(?:createClient\(|new Redis\(|connect\(\{)/],
];

const FENCE = /^\s*\* ?```(.*)$/;
const MARGIN = /^\s*\* ?/;

/** Whether `deno test --doc` leaves it out. */
export function isIgnored({ info }: Example): boolean {
  return info.split(/[\s,]+/).includes("ignore");
}

/** The servers that must be up for an example. */
export function serverOf({ code }: Example): ExampleServer {
  return CONNECTS.find(([, pattern]) => pattern.test(code))?.[0] ?? "none";
}

/** The place of an example, as `redis/redis_lock.ts:65`. */
export function placeOf({ file, line }: Example): string {
  return `${file}:${line}`;
}

/** The code blocks in the comments of a module. */
export function examplesIn(file: string, source: string): Example[] {
  const examples: Example[] = [];
  let open: { line: number; info: string; code: string[] } | null = null;
  for (const [index, text] of source.split("\n").entries()) {
    const info = FENCE.exec(text)?.[1];
    if (info === undefined) {
      open?.code.push(text.replace(MARGIN, ""));
    } else if (open === null) {
      open = { line: index + 1, info: info.trim(), code: [] };
    } else {
      examples.push({ ...open, file, code: `${open.code.join("\n")}\n` });
      open = null;
    }
  }
  if (open !== null) throw new Error(`${file}:${open.line}: the code block has no end`);
  return examples;
}

/** The published modules that are not in a folder, and the published folders, which end with `/`. */
export function publishedSources(): string[] {
  const { publish } = JSON.parse(read("deno.json")) as { publish: { include: string[] } };
  return publish.include.filter((path) => /\/$|\.ts$/.test(path));
}

/** The code blocks of all published modules. */
export function publishedExamples(): Example[] {
  const sources = publishedSources();
  return filesIn("")
    .filter((file) => file.endsWith(".ts") && sources.some((source) => file.startsWith(source)))
    .flatMap((file) => examplesIn(file, read(file)));
}

function read(file: string): string {
  return readFileSync(new URL(file, ROOT), "utf8");
}
