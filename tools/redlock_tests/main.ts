/**
 * Runs the tests of the package redlock and of a fork of it against `./redlock`, with nothing changed but the
 * import. They are read from clones of their repositories, and are no part of this one. The table of
 * `docs/migrating.md` has the counts.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { installPackages, npmInstall } from "../../testing/npm/install.ts";
import { packedPackage } from "../../testing/npm/package.ts";
import { NODE_22, programOf } from "../../testing/npm/runtimes.ts";
import { runCommand } from "../../testing/servers/command.ts";
import { freeClusterPort } from "../../testing/servers/ports.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { LONG_BOUND_MS } from "../../testing/time.ts";

const USAGE = `Usage: deno run -A tools/redlock_tests/main.ts REDLOCK FORK

Runs the tests of redlock and of a fork of it against ./redlock, on Node 22 from npm, with one Redis and
a cluster of one. Prints how many pass, and which do not.

  REDLOCK  a clone of github.com/mike-marcacci/node-redlock
  FORK     a clone of github.com/sesamecare/redlock`;

/** v5.0.0-beta.2. */
const REDLOCK_COMMIT = "54de94cfd7e311b8972455811436d45538fe85ed";
/** 3.6.0, the last one. */
const FORK_COMMIT = "4c15d76";

const OURS = JSON.stringify("@holdfast/lock/redlock");
/** What the tests import instead of the sources of their package. */
const IMPORT = `export * from ${OURS};
export { Redlock as default } from ${OURS};
`;
/** The duration in most tests is some 28,000 years. */
const AGES = "Number.MAX_SAFE_INTEGER / 10";
/** No integer either: one test wants that. They compare times in units of 200 ms: 99 ms may pass. */
const A_DAY = "86_400_099.7";

interface Result {
  readonly title: string;
  readonly isPassed: boolean;
  readonly message?: string | undefined;
}

interface Servers {
  readonly instance: RedisServer;
  readonly cluster: RedisServer;
}

/** Where the tests of a package run. */
interface Project {
  readonly folder: string;
  /** Runs a program of its packages. */
  run(program: string, args: readonly string[]): Promise<string>;
}

async function openProject(
  stack: AsyncDisposableStack,
  specs: readonly string[],
  { instance, cluster }: Servers,
): Promise<Project> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-redlock-"));
  stack.defer(() => rm(folder, { recursive: true }));
  await npmInstall(folder, [...specs, (await packedPackage()).archive]);
  await writeFile(join(folder, "package.json"), `{ "private": true, "type": "module" }`);
  await mkdir(join(folder, "src"));
  for (const index of ["index.js", "index.ts"]) await writeFile(join(folder, "src", index), IMPORT);
  const node = await programOf(NODE_22);
  const env = {
    NODE_OPTIONS: `--require ${fileURLToPath(new URL("./hosts.cjs", import.meta.url))}`,
    REDLOCK_TESTS_PORTS: JSON.stringify([instance.port, cluster.port]),
  };
  return {
    folder,
    async run(program, args) {
      const command = [node, join(folder, "node_modules", program), ...args];
      const { output } = await runCommand(command, LONG_BOUND_MS, { cwd: folder, env });
      return output;
    },
  };
}

async function sourceOf(clone: string, commit: string, path: string): Promise<string> {
  const command = ["git", "-C", clone, "show", `${commit}:${path}`];
  const { success, output } = await runCommand(command, LONG_BOUND_MS);
  if (!success) throw new Error(`Cannot read ${path} at ${commit} in ${clone}: ${output.trim()}`);
  return output;
}

/** Ava runs JavaScript. */
async function runAva(project: Project, source: string, isSerial: boolean): Promise<Result[]> {
  const esbuild = join(await installPackages(["esbuild@0.28.2"]), "esbuild/bin/esbuild");
  const [typed, plain] = ["single.ts", "single.test.js"].map((name) => join(project.folder, name));
  await writeFile(typed!, source.replace("./index.js", "./src/index.js"));
  const compiled = await runCommand([esbuild, typed!, `--outfile=${plain}`], LONG_BOUND_MS);
  if (!compiled.success) throw new Error(compiled.output);
  const args = ["--tap", "--timeout=2m", ...isSerial ? ["--serial"] : [], "single.test.js"];
  const tap = await project.run("ava/entrypoints/cli.mjs", args);
  // The others are of errors that a test does not wait for.
  return results(tap.matchAll(/^(not ok|ok) \d+ - ((?:instance|cluster) - .+)$/gm), tap);
}

function results(lines: Iterable<RegExpMatchArray>, output: string): Result[] {
  const found = [...lines].map(([, state, title]) => ({ title: title!, isPassed: state === "ok" }));
  if (found.length === 0) throw new Error(`No test has run:\n${output}`);
  return found;
}

interface VitestReport {
  readonly testResults: readonly {
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: "passed" | "failed" | "skipped" | "pending";
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

async function runVitest(project: Project, name: string, only?: string): Promise<Result[]> {
  const file = join(project.folder, "report.json");
  const chosen = only === undefined ? [] : ["-t", only];
  // By default vitest waits for 5 s, which is how long ours waits for a server.
  const options = ["--reporter=json", `--outputFile=${file}`, "--test-timeout=30000"];
  const args = ["run", name, ...options, ...chosen];
  const output = await project.run("vitest/vitest.mjs", args);
  const report: VitestReport = await readFile(file, "utf8").then(JSON.parse, () => {
    throw new Error(`No test has run:\n${output}`);
  });
  return report.testResults.flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status === "passed" || status === "failed")
    .map(({ fullName, status, failureMessages: [message] }) => {
      return { title: fullName.trim(), isPassed: status === "passed", message };
    });
}

async function flush({ instance, cluster }: Servers): Promise<void> {
  for (const server of [instance, cluster]) await server.command("FLUSHALL");
}

function report(what: string, all: readonly Result[]): void {
  const failed = all.filter(({ isPassed }) => !isPassed);
  console.log(`${what}: ${all.length - failed.length} of ${all.length} pass`);
  for (const { title, message = "" } of failed) {
    console.log(`  not: ${title}\n       ${message.trim().split("\n", 1)[0]}`);
  }
}

async function redlockTests(clone: string, servers: Servers): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const project = await openProject(stack, ["ava@4.3.3", "ioredis@5.3.2"], servers);
  const source = await sourceOf(clone, REDLOCK_COMMIT, "src/single.test.ts");
  await flush(servers);
  report("single.test.ts", await runAva(project, source, false));
  await flush(servers);
  report("single.test.ts, a day", await runAva(project, source.replaceAll(AGES, A_DAY), true));
}

async function forkTests(clone: string, servers: Servers): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const project = await openProject(stack, ["vitest@0.34.6", "ioredis@5.3.2"], servers);
  const write = (name: string, text: string) => writeFile(join(project.folder, "src", name), text);
  const source = await sourceOf(clone, FORK_COMMIT, "src/system.spec.ts");
  await write("unit.spec.ts", await sourceOf(clone, FORK_COMMIT, "src/unit.spec.ts"));
  await write("system.spec.ts", source);
  await flush(servers);
  report("system.spec.ts", await runVitest(project, "system.spec.ts"));
  await write("system.spec.ts", source.replaceAll(AGES, A_DAY));
  await flush(servers);
  const together = await runVitest(project, "system.spec.ts");
  const alone: Result[] = [];
  for (const result of together) {
    if (!result.title.startsWith("'cluster'")) {
      alone.push(result);
      continue;
    }
    await flush(servers);
    alone.push(...await runVitest(project, "system.spec.ts", `${result.title}$`));
  }
  report("system.spec.ts, a day, those of the cluster each by itself", alone);
  report("unit.spec.ts", await runVitest(project, "unit.spec.ts"));
}

async function main(): Promise<number> {
  const [redlock, fork, ...others] = Deno.args;
  if (redlock === undefined || fork === undefined || others.length > 0) {
    console.error(USAGE);
    return 2;
  }
  await using instance = await startRedis();
  // Its node must have the address by which the tests find it: see `hosts.cjs`.
  const announced = ["--cluster-announce-ip", "127.0.41.2", "--cluster-announce-port", "6379"];
  await using cluster = await startRedis({
    args: ["--cluster-enabled", "yes", ...announced],
    choosePort: freeClusterPort,
  });
  await cluster.command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383);
  await waitUntil("the cluster serves", async () => {
    return String(await cluster.command("CLUSTER", "INFO")).includes("cluster_state:ok");
  });
  await redlockTests(redlock, { instance, cluster });
  await forkTests(fork, { instance, cluster });
  return 0;
}

if (import.meta.main) Deno.exit(await main());
