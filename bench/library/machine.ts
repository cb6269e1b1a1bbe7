/**
 * The machine, and the versions of all programs and packages, as the report names them.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";
import process from "node:process";
import { runCommand } from "../../testing/servers/command.ts";

/** Where and with what figures were measured. */
export interface Machine {
  readonly date: string;
  readonly commit: string;
  readonly cpu: string;
  readonly memory: string;
  readonly system: string;
  /** The load of the last minute when the suite began. */
  readonly load: number;
  readonly versions: Readonly<Record<string, string>>;
}

const BOUND_MS = 10_000;
/** The packages whose versions matter, besides this one. */
const PACKAGES = [
  "ioredis",
  "redis",
  "redlock",
  "redis-semaphore",
  "redlock-universal",
  "node-zookeeper-client",
  "proper-lockfile",
];

/** Describes this machine. */
export async function describeMachine(): Promise<Machine> {
  const processors = cpus();
  return {
    date: new Date().toISOString().slice(0, 16).replace("T", " "),
    commit: await commit(),
    cpu: `${processors.length} × ${processors[0]?.model ?? "unknown"}`,
    memory: `${Math.round(totalmem() / 2 ** 30)} GB`,
    system: `${process.platform} ${release()}`,
    load: Math.round(loadavg()[0]! * 100) / 100,
    versions: {
      Deno: Deno.version.deno,
      V8: Deno.version.v8,
      ...await serverVersion(),
      ...packageVersions(),
    },
  };
}

async function commit(): Promise<string> {
  const git = async (...args: string[]) => await runCommand(["git", ...args], BOUND_MS);
  const head = await git("rev-parse", "--short", "HEAD");
  if (!head.success) return "unknown";
  const changes = await git("status", "--porcelain", "--untracked-files=no");
  const isClean = changes.success && changes.output.trim() === "";
  return `${head.output.trim()}${isClean ? "" : " with changes"}`;
}

async function serverVersion(): Promise<Record<string, string>> {
  const { success, output } = await runCommand(["redis-server", "--version"], BOUND_MS)
    .catch(() => ({ success: false, output: "" }));
  const version = /v=(\S+)/.exec(output)?.[1];
  return success && version ? { "redis-server": version } : {};
}

/** The pinned versions of `deno.json`. */
function packageVersions(): Record<string, string> {
  const file = new URL("../../deno.json", import.meta.url);
  const { version, imports } = JSON.parse(readFileSync(file, "utf8")) as {
    version: string;
    imports: Record<string, string>;
  };
  const versionOf = (name: string) => imports[name]?.replace(/^npm:.*@/, "") ?? "unknown";
  return {
    "@holdfast/lock": version,
    ...Object.fromEntries(PACKAGES.map((name) => [name, versionOf(name)])),
  };
}
