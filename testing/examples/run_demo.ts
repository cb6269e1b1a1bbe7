/**
 * Runs the real demo as a process.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { readdirSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import process from "node:process";
import { text } from "node:stream/consumers";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import {
  scriptCommand,
  type Signal,
  type SpawnedProcess,
  spawnProcess,
} from "../runtime/processes.ts";
import { untilShown, watchStalls } from "../processes/stalls.ts";
import { runCommand } from "../servers/command.ts";
import { waitUntil } from "../servers/wait.ts";
import { CONDITION_BOUND_MS, LONG_BOUND_MS } from "../time.ts";

const DEMO = new URL("../../examples/demo.ts", import.meta.url);
const BOUND_MS = LONG_BOUND_MS;
const PS_BOUND_MS = CONDITION_BOUND_MS;
/** The TTL, or the session timeout, of the demo. */
const LEASE_MS = 2_000;

/** The exit code and the output of the demo. */
export interface DemoResult {
  readonly code: number;
  readonly out: string;
  readonly errors: string;
}

/** A running demo. */
export interface RunningDemo extends AsyncDisposable {
  readonly pid: number;
  /** The folder for its temporary files. */
  readonly dir: string;
  readonly result: Promise<DemoResult>;
  kill(signal: Signal): void;
  /** Resolves with the ids of its worker processes once they exist. */
  started(count: number): Promise<number[]>;
  /** The same once they have begun to work. */
  workers(count: number): Promise<number[]>;
}

/** Starts the demo. Disposing checks that it has left no file behind. */
export async function startDemo(...args: string[]): Promise<RunningDemo> {
  const dir = await makeTempDirectory();
  const child = spawnProcess([...scriptCommand(DEMO), ...args], {
    // Only the conformance suite may use shared servers.
    env: { TMPDIR: dir, NO_COLOR: "1", REDIS_URL: "", ZOOKEEPER_CONNECT: "" },
    stdout: "pipe",
    stderr: "pipe",
  });
  const result = resultOf(child);
  const started = async (count: number) => {
    let pids: number[] = [];
    await waitUntil("the workers exist", async () => {
      pids = await childrenOf(child.pid);
      return pids.length === count;
    });
    return pids;
  };
  return {
    pid: child.pid,
    dir,
    result,
    kill: child.kill,
    started,
    async workers(count) {
      await waitUntil("the workers have begun", () => hasBegun(dir));
      return await started(count);
    },
    async [Symbol.asyncDispose]() {
      await result;
      await rm(dir, { recursive: true });
    },
  };
}

async function resultOf(child: SpawnedProcess): Promise<DemoResult> {
  const timer = setTimeout(() => child.kill("SIGTERM"), BOUND_MS);
  const [out, errors] = await Promise.all([text(child.stdout!), text(child.stderr!)]);
  const { code } = await child.ended;
  clearTimeout(timer);
  return { code, out, errors };
}

/** Runs the demo to its end and checks that it leaves no file behind. */
export async function runDemo(...args: string[]): Promise<DemoResult> {
  await using demo = await startDemo(...args);
  const result = await demo.result;
  assertEquals(filesIn(demo.dir), []);
  return result;
}

/** The same on a server, where a lease lasts 2 s: again if this machine, or the server alone, has stalled. */
export async function runDemoOnServer(...args: string[]): Promise<DemoResult> {
  let result: DemoResult | undefined;
  await untilShown(async () => {
    using stalls = watchStalls();
    result = await runDemo(...args);
    if (result.code === 0) return "shown";
    return stalls.longestMs > LEASE_MS / 4 || hasLostLease(result) ? "stalled" : "shown";
  });
  return result!;
}

/** Whether nothing is wrong but that workers have lost their lease, which ends them before their last round. */
function hasLostLease({ out }: DemoResult): boolean {
  const failed = [...out.matchAll(/^ +FAILED +(.*)$/gm)].map(([, text]) => text!);
  return failed.length > 0 &&
    failed.every((text) =>
      /^worker \d+ ended with exit code 1: (AbortError|LeaseLostError)/.test(text) ||
      /^(the balance is|the account shows) /.test(text)
    );
}

/** The names of the files in a folder. */
export function filesIn(dir: string): string[] {
  return readdirSync(dir);
}

async function hasBegun(dir: string): Promise<boolean> {
  const [name] = filesIn(dir);
  const text = await readFile(`${dir}/${name}/account.json`, "utf8").catch(() => "{}");
  return JSON.parse(text).balance > 0;
}

async function childrenOf(pid: number): Promise<number[]> {
  const children: number[] = [];
  for (const [child, parent] of await processes()) if (parent === pid) children.push(child!);
  return children;
}

/** The ids of all processes and of their parents. */
async function processes(): Promise<number[][]> {
  if (process.platform !== "linux") {
    const { output } = await runCommand(["ps", "-A", "-o", "pid=,ppid="], PS_BOUND_MS);
    const lines = output.trim().split("\n");
    return lines.map((line) => line.trim().split(/\s+/).map(Number));
  }
  const pids = filesIn("/proc").filter((name) => /^\d+$/.test(name));
  return await Promise.all(pids.map(async (pid) => {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
    return [Number(pid), Number(/\) \S (\d+)/.exec(stat)?.[1])];
  }));
}
