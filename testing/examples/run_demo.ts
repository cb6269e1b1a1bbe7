/**
 * Runs the real demo as a process of its own.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { waitUntil } from "../servers/wait.ts";

const DEMO = fileURLToPath(new URL("../../examples/demo.ts", import.meta.url));
const CONFIG = fileURLToPath(new URL("../../deno.json", import.meta.url));
const BOUND_MS = 120_000;

/** How the demo ended, and what it printed. */
export interface DemoResult {
  readonly code: number;
  readonly out: string;
  readonly errors: string;
}

/** A demo under way. */
export interface RunningDemo extends AsyncDisposable {
  readonly pid: number;
  /** Its temporary files are made in here. */
  readonly dir: string;
  readonly result: Promise<DemoResult>;
  kill(signal: Deno.Signal): void;
  /** Resolves with its worker processes once they are at work. */
  workers(count: number): Promise<number[]>;
}

/** Starts the demo. Disposing checks that it has left no file behind. */
export async function startDemo(...args: string[]): Promise<RunningDemo> {
  const dir = await Deno.makeTempDir({ prefix: "holdfast-" });
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--config", CONFIG, DEMO, ...args],
    // Only the conformance suite may use a server that others use too.
    env: { TMPDIR: dir, NO_COLOR: "1", REDIS_URL: "", ZOOKEEPER_CONNECT: "" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    signal: AbortSignal.timeout(BOUND_MS),
  }).spawn();
  const result = child.output().then(({ code, stdout, stderr }) => {
    const decoder = new TextDecoder();
    return { code, out: decoder.decode(stdout), errors: decoder.decode(stderr) };
  });
  return {
    pid: child.pid,
    dir,
    result,
    kill: (signal) => child.kill(signal),
    async workers(count) {
      await waitUntil("the workers are at work", () => isAtWork(dir));
      const pids = await childrenOf(child.pid);
      assertEquals(pids.length, count);
      return pids;
    },
    async [Symbol.asyncDispose]() {
      await result;
      await Deno.remove(dir, { recursive: true });
    },
  };
}

/** Runs the demo to its end and checks that it leaves no file behind. */
export async function runDemo(...args: string[]): Promise<DemoResult> {
  await using demo = await startDemo(...args);
  const result = await demo.result;
  assertEquals(filesIn(demo.dir), []);
  return result;
}

/** The names of the files in a folder. */
export function filesIn(dir: string): string[] {
  return [...Deno.readDirSync(dir)].map(({ name }) => name);
}

async function isAtWork(dir: string): Promise<boolean> {
  const [name] = filesIn(dir);
  const text = await Deno.readTextFile(`${dir}/${name}/account.json`).catch(() => "{}");
  return JSON.parse(text).balance > 0;
}

async function childrenOf(pid: number): Promise<number[]> {
  const children: number[] = [];
  for (const [child, parent] of await processes()) if (parent === pid) children.push(child!);
  return children;
}

/** The ids of all processes and of their parents. */
async function processes(): Promise<number[][]> {
  if (Deno.build.os !== "linux") {
    const { stdout } = await new Deno.Command("ps", { args: ["-A", "-o", "pid=,ppid="] }).output();
    const lines = new TextDecoder().decode(stdout).trim().split("\n");
    return lines.map((line) => line.trim().split(/\s+/).map(Number));
  }
  const pids = filesIn("/proc").filter((name) => /^\d+$/.test(name));
  return await Promise.all(pids.map(async (pid) => {
    const stat = await Deno.readTextFile(`/proc/${pid}/stat`).catch(() => "");
    return [Number(pid), Number(/\) \S (\d+)/.exec(stat)?.[1])];
  }));
}
