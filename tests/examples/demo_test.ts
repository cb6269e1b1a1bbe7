import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { isAlive } from "../../testing/servers/process_checks.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { freePort } from "../../testing/servers/ports.ts";
import { filesIn, runDemo, startDemo } from "../../testing/examples/run_demo.ts";

const ROOT = new URL("../../", import.meta.url);

for (const backend of ["file", "memory"]) {
  Deno.test(`demo.ts shows that the ${backend} lock loses no update`, async () => {
    const { code, out, errors } = await runDemo("--backend", backend, "--rounds", "10");
    assertEquals([code, errors], [0, ""]);
    assertMatch(out, /under the lock +40 +40 +nothing lost/);
    assertMatch(out, /without a lock +40 +\d+ +\d+ updates? lost/);
    assertMatch(out, /^ {2}all +40( +[\d.]+ ms){3}$/m);
    assertStringIncludes(out, "ok      no two of 40 holds overlap\n");
    assertStringIncludes(out, "ok      each grant has a greater fencing token\n");
    for (const worker of [1, 2, 3, 4]) {
      assertMatch(out, RegExp(`^  worker ${worker} │.*[█▓].*│$`, "m"));
    }
    const widest = Math.max(...out.split("\n").map((line) => line.length));
    assert(widest <= 100, `a line of ${widest} characters`);
  });
}

Deno.test("demo.ts uses the file lock by default", async () => {
  const { code, out } = await runDemo("--workers", "2", "--rounds", "1");
  assertEquals(code, 0);
  assertStringIncludes(out, "file lock, 2 workers × 1 round\n");
});

/** Runs the first command of the README in a new home, where nothing can be downloaded. */
async function runFirstCommand(): Promise<{ code: number; out: string; errors: string }> {
  const readme = await Deno.readTextFile(new URL("README.md", ROOT));
  const [, args = ""] = /^npx -y deno@[\d.]+ (run .*?) +#/m.exec(readme)!;
  const home = await Deno.makeTempDir({ prefix: "holdfast-" });
  const nowhere = `http://127.0.0.1:${freePort()}`;
  const child = new Deno.Command(Deno.execPath(), {
    args: args.split(" "),
    cwd: ROOT,
    env: {
      ...{ HOME: home, DENO_DIR: `${home}/deno`, TMPDIR: home, NO_COLOR: "1" },
      ...{ NPM_CONFIG_REGISTRY: nowhere, JSR_URL: nowhere },
      ...{ http_proxy: nowhere, https_proxy: nowhere, no_proxy: "" },
    },
  });
  const { code, stdout, stderr } = await child.output();
  await Deno.remove(home, { recursive: true });
  const [out = "", errors = ""] = [stdout, stderr].map((text) => new TextDecoder().decode(text));
  return { code, out, errors };
}

Deno.test("the first command of README.md downloads nothing, and loses no update when the holder of the file lock is killed", async () => {
  const { code, out, errors } = await runFirstCommand();
  assertEquals([code, errors], [0, ""]);
  assertMatch(out, /worker \d got SIGKILL in its round \d+, while it held the lock\n/);
  assertMatch(out, /under the lock +(\d+) +\1 +nothing lost/);
  assertMatch(out, /The next grant came [\d.]+ ms later; the system frees the lock/);
  assertMatch(out, /ok {6}worker \d was killed and the others went on\n/);
});

Deno.test("demo.ts exits with 1 when a worker fails", async () => {
  // So many rounds that the first worker has not ended before a late machine has started the second one.
  await using demo = await startDemo("--workers", "2", "--rounds", "400");
  const [first] = await demo.started(2);
  Deno.kill(first!, "SIGKILL");
  const { code, out } = await demo.result;
  assertEquals(code, 1);
  assertMatch(out, /FAILED {2}the balance is \d+, but should be 800\n/);
  assertMatch(out, /FAILED {2}worker [12] ended with SIGKILL/);
  assertEquals(filesIn(demo.dir), []);
});

for (const [signal, exitCode] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
  Deno.test(`demo.ts leaves no process and no file behind after ${signal}`, async () => {
    await using demo = await startDemo("--workers", "2", "--rounds", "10000");
    const workers = await demo.workers(2);
    demo.kill(signal);
    const { code, errors } = await demo.result;
    assertEquals([code, errors], [exitCode, ""]);
    for (const pid of workers) assert(!await isAlive(pid));
    assertEquals(filesIn(demo.dir), []);
  });
}

/** Whether a SIGINT waits for a process. Linux tells; elsewhere the signals may become one. */
async function isSignalled(pid: number): Promise<boolean> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`).catch(() => "");
  const [, pending = "0"] = /^ShdPnd:\s*(\w+)$/m.exec(status) ?? [];
  return (BigInt(`0x${pending}`) & 2n) !== 0n;
}

Deno.test("demo.ts leaves no process and no file behind when Ctrl-C sends SIGINT twice, as under deno task", async () => {
  await using demo = await startDemo("--workers", "2", "--rounds", "10000");
  const workers = await demo.workers(2);
  demo.kill("SIGINT");
  // Two signals of a kind become one until the first is delivered.
  await waitUntil("the first signal is delivered", async () => !await isSignalled(demo.pid));
  demo.kill("SIGINT");
  const { code, errors } = await demo.result;
  assertEquals([code, errors], [130, ""]);
  for (const pid of workers) assert(!await isAlive(pid));
  assertEquals(filesIn(demo.dir), []);
});

Deno.test("demo.ts leaves no worker running when it is killed", async () => {
  await using demo = await startDemo("--workers", "2", "--rounds", "10000");
  const workers = await demo.workers(2);
  demo.kill("SIGKILL");
  await demo.result;
  for (const pid of workers) {
    await waitUntil("the worker has ended", async () => !await isAlive(pid));
  }
});

const BAD_ARGUMENTS: [args: string[], message: string][] = [
  [
    ["--backend", "etcd"],
    'Cannot use --backend "etcd": choose one of file, redis, zookeeper, memory',
  ],
  [["--workers", "0"], 'Cannot use --workers "0": give a whole number from 1 to 64'],
  [["--workers", "65"], 'Cannot use --workers "65": give a whole number from 1 to 64'],
  [["--workers", "1.5"], 'Cannot use --workers "1.5": give a whole number from 1 to 64'],
  [["--rounds", "many"], 'Cannot use --rounds "many": give a whole number from 1 to 10000'],
  [["--rounds", "10001"], 'Cannot use --rounds "10001": give a whole number from 1 to 10000'],
  [["--url", "redis://h"], "Cannot use --url with file locks, which need no server: leave it out"],
  [["--backend", "redis", "--url", "h:1"], "Cannot use --url: give a Redis URL such as redis://"],
  [
    ["--backend", "zookeeper", "--url", "redis://h:1"],
    "Cannot use --url: give a ZooKeeper connect string such as 127.0.0.1:2181",
  ],
  [["--backend", "memory", "--kill"], "Cannot use --kill with memory locks"],
  [["--kill", "--workers", "1"], "Cannot use --kill with one worker"],
  [["--worker", "3"], "Unknown option '--worker'"],
  [["redis"], "Unexpected argument 'redis'"],
];

Deno.test("demo.ts exits with 2 for invalid arguments", async () => {
  for (const [args, message] of BAD_ARGUMENTS) {
    const { code, out, errors } = await runDemo(...args);
    assertEquals([code, out], [2, ""], args.join(" "));
    assertStringIncludes(errors, message);
    assertStringIncludes(errors, "--help");
  }
});

Deno.test("demo.ts --help lists its options", async () => {
  const { code, out } = await runDemo("--help");
  assertEquals(code, 0);
  for (const option of ["backend", "workers", "rounds", "url", "kill", "svg"]) {
    assertStringIncludes(out, `--${option}`);
  }
});
