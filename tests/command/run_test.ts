/**
 * `holdfast run`: the command ends as it does, gets signals, and is gone before anybody else has the lock.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import process from "node:process";
import { text } from "node:stream/consumers";
import { nodeRedis } from "../../redis/clients/node_redis.ts";
import { RedisLock } from "../../redis/mod.ts";
import { createClient } from "redis";
import { noteOpen } from "../../testing/redis/client_timers.ts";
import {
  scriptCommand,
  type SpawnedProcess,
  spawnProcess,
} from "../../testing/runtime/processes.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { type FaultProxy, startProxy } from "../../testing/servers/proxy.ts";
import { type RedisServer, startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, ENDING_TTL_MS } from "../../testing/time.ts";

const MAIN = new URL("../../command/main.ts", import.meta.url);
const IS_SOAK = process.env.HOLDFAST_SOAK === "1";
/** Prints its process id, ignores TERM, and ends only by KILL. */
const STUBBORN = ["sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.1; done"];
/** Prints its process id, and the name of the signal that it gets. */
const OBEDIENT = [
  "sh",
  "-c",
  'for s in HUP INT QUIT TERM USR1 USR2; do trap "echo got $s; exit 0" $s; done; ' +
  "echo $$; while :; do sleep 0.05; done",
];

/** Starts `holdfast` as a process. */
function start(args: readonly string[], url = ""): SpawnedProcess {
  return spawnProcess([...scriptCommand(MAIN), ...args], {
    env: { HOLDFAST_URL: url },
    stdout: "pipe",
    stderr: "pipe",
  });
}

/** Runs it to its end. */
async function finish(args: readonly string[], url?: string) {
  const process = start(args, url);
  const [stdout, stderr] = await Promise.all([text(process.stdout!), text(process.stderr!)]);
  return { code: (await process.ended).code, stdout, stderr };
}

/** Starts it with a command that prints its process id first. */
async function startCommand(args: readonly string[], url: string) {
  const holdfast = start(args, url);
  let output = "";
  holdfast.stdout!.setEncoding("utf8").on("data", (chunk: string) => output += chunk);
  await waitUntil("the command runs", () => output.includes("\n"));
  return { holdfast, pid: Number(output.split("\n")[0]), output: () => output };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Whether a process has ended. One whose parent has not asked for its end is still listed. */
function isGone(pid: number): boolean {
  try {
    return / Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}

/** A lock of this process on the same server. */
async function lockOn({ url }: RedisServer) {
  const client = createClient({ url }).on("error", () => {});
  await client.connect();
  const locks = new RedisLock(nodeRedis(client), { unavailableAfterMs: CONDITION_BOUND_MS });
  const close = noteOpen(() => client.destroy());
  return {
    locks,
    async [Symbol.asyncDispose]() {
      await locks[Symbol.asyncDispose]();
      await close();
    },
  };
}

async function fileUrl() {
  const path = await makeTempDirectory();
  return { url: `file://${path}`, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

Deno.test("holdfast run: exits as its command, which gets the name and the token", async () => {
  await using files = await fileUrl();
  const script = 'echo "$HOLDFAST_NAME $HOLDFAST_TOKEN"; exit 7';
  const { code, stdout } = await finish(["run", "nightly", "--", "sh", "-c", script], files.url);
  assertEquals(code, 7);
  assertMatch(stdout, /^nightly [1-9]\d+\n$/);
  const killed = await finish(["run", "a", "--", "sh", "-c", "kill -KILL $$"], files.url);
  assertEquals(killed.code, 137);
  const missing = await finish(["run", "a", "--", "no-such-program"], files.url);
  assertEquals(missing.code, 127);
  assertMatch(missing.stderr, /^holdfast: cannot run no-such-program \(ENOENT\): is it installed/);
  const own = await finish(["run", "a", "--", "sh", "-c", "exit 126"], files.url);
  assertEquals([own.code, own.stderr], [126, ""]);
});

Deno.test("holdfast run: a busy lock is 75 or what -E says, a service out of reach 69", async () => {
  await using files = await fileUrl();
  const { holdfast } = await startCommand(["run", "a", "--", ...OBEDIENT], files.url);
  const busy = await finish(["run", "--no-wait", "a", "--", "true"], files.url);
  assertEquals([busy.code, busy.stderr], [75, 'holdfast: "a" is busy\n']);
  const other = await finish(["run", "--wait", "1ms", "-E", "9", "a", "--", "true"], files.url);
  assertEquals(other.code, 9);
  holdfast.kill("SIGTERM");
  assertEquals((await holdfast.ended).code, 0);
  const outage = await finish(
    ["run", "a", "--", "true"],
    "redis://:hunter2@127.0.0.1:1?unavailableAfterMs=50&disposeTimeoutMs=50",
  );
  assertEquals(outage.code, 69);
  assertMatch(outage.stderr, /ECONNREFUSED/);
  assert(!outage.stderr.includes("hunter2"));
});

Deno.test("holdfast run: wrong arguments are 64, with a way to the help", async () => {
  for (
    const [args, says] of [
      [["fly"], /no command fly/],
      [["redis://:hunter2@h"], /no command like that/],
      [["doctor", "redis://:hunter2@h"], /is --at missing/],
      [["run"], /name of the lock is missing/],
      [["run", "a"], /command is missing/],
      [["run", "a", "--", "true"], /--at URL/],
      [["run", "--at", "memory:", "a", "--", "true"], /no other process/],
      [["run", "--at", "file:", "--wait", "5", "a", "--", "true"], /--wait must be a duration/],
      [["run", "--at", "file:", "--ttl", "5s", "a", "--", "true"], /--ttl is for Redis/],
      [["run", "--at", "file:", "-E", "256", "a", "--", "true"], /-E must be/],
      [["run", "--at", "file:", "--wait", "5s", "--no-wait", "a", "--", "true"], /exclude/],
      [["run", "--at", "file:", "--forever", "a", "--", "true"], /--forever/],
      [["run", "--at", "ftp://:hunter2@h", "a", "--", "true"], /scheme must be/],
    ] as const
  ) {
    const { code, stderr } = await finish(args);
    assertEquals(code, 64, stderr);
    assertMatch(stderr, says);
    assertMatch(stderr, /\nTry: holdfast .*--help\n$/);
    assert(!stderr.includes("hunter2"));
  }
});

Deno.test("holdfast run: passes each signal on", async () => {
  await using files = await fileUrl();
  for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
    const { holdfast, output } = await startCommand(["run", "a", "--", ...OBEDIENT], files.url);
    holdfast.kill(signal);
    assertEquals((await holdfast.ended).code, 0);
    assertMatch(output(), new RegExp(`\\ngot ${signal.slice(3)}\\n$`));
  }
});

Deno.test("holdfast run: the lock is held until all processes of a command that was told to end are gone", async () => {
  await using server = await startRedis();
  await using mine = await lockOn(server);
  // The leader ends by the signal; its child ignores it.
  const script = "(trap '' TERM; while :; do sleep 0.1; done) & echo $!; wait";
  for (const told of ["by a signal", "by a loss"]) {
    const args = ["run", "--ttl", `${ENDING_TTL_MS}ms`, "--kill-after", "300ms", "a", "--"];
    const { holdfast, pid } = await startCommand([...args, "sh", "-c", script], server.url);
    const next = mine.locks.acquire("a");
    await waitUntil(
      "the next one waits",
      async () => (await mine.locks.query("a")).waiterCount === 1,
    );
    if (told === "by a signal") holdfast.kill("SIGTERM");
    else await server.command("DEL", "lock:a");
    await using _lease = await next;
    if (told === "by a signal") assert(isGone(pid), "a process of the command still runs");
    await holdfast.ended;
    await waitUntil("all are gone", () => isGone(pid));
  }
});

Deno.test("holdfast run: the label may stand in the URL", async () => {
  await using files = await fileUrl();
  const { code, stderr } = await finish(["run", "a", "--", "true"], `${files.url}?label=billing`);
  assertEquals([code, stderr], [0, ""]);
});

Deno.test("holdfast run: a signal ends its wait, and nothing stays in the queue", async () => {
  await using server = await startRedis();
  await using mine = await lockOn(server);
  await using _lease = await mine.locks.acquire("a");
  const waiter = start(["run", "a", "--", "true"], server.url);
  const waiters = async () => (await mine.locks.query("a")).waiterCount;
  await waitUntil("it waits", async () => await waiters() === 1);
  waiter.kill("SIGTERM");
  assertEquals((await waiter.ended).code, 143);
  assertEquals(await waiters(), 0);
});

Deno.test("holdfast run: a lease that is renewed never ends the command, however short it is", async () => {
  await using server = await startRedis();
  const ttl = `${ENDING_TTL_MS}ms`;
  const sleeps = ["sh", "-c", `sleep ${2 * ENDING_TTL_MS / 1_000}`];
  // Shorter than the time that a command has by default after TERM.
  assertEquals((await finish(["run", "--ttl", ttl, "a", "--", ...sleeps], server.url)).code, 0);
  const tooLong = ["run", "--ttl", ttl, "--kill-after", ttl, "a", "--", ...sleeps];
  const { code, stderr } = await finish(tooLong, server.url);
  assertEquals(code, 64);
  assertMatch(stderr, /--kill-after must be at most half of the lease, which lasts \d+ ms/);
});

/** What keeps `holdfast` from the server while others reach it, now or soon. */
const CUTS = {
  "a partition": {
    rounds: 200,
    isFrozen: false,
    cut(_server: RedisServer, proxy: FaultProxy) {
      proxy.blackHole("both");
      return () => {};
    },
  },
  "a freeze of the server": {
    rounds: 100,
    isFrozen: true,
    cut({ pid }: RedisServer) {
      process.kill(pid!, "SIGSTOP");
      return () => process.kill(pid!, "SIGCONT");
    },
  },
};

for (const [what, { rounds, isFrozen, cut }] of Object.entries(CUTS)) {
  Deno.test(`holdfast run: in ${what} the command is gone before the lock is granted again`, async () => {
    await using server = await startRedis();
    await using mine = await lockOn(server);
    for (let round = 0; round < (IS_SOAK ? rounds : 2); round++) {
      await using proxy = await startProxy(server);
      const url = `redis://127.0.0.1:${proxy.port}?ttlMs=${ENDING_TTL_MS}`;
      const args = ["run", "--kill-after", `${ENDING_TTL_MS / 4}ms`, "a", "--", ...STUBBORN];
      const { holdfast, pid } = await startCommand(args, url);
      const stderr = text(holdfast.stderr!);
      const heal = cut(server, proxy);
      const next = mine.locks.acquire("a", { waitMs: CONDITION_BOUND_MS });
      if (isFrozen) await holdfast.ended;
      heal();
      await using lease = await next;
      assert(!isAlive(pid), "the command still runs");
      assert(lease.isHeld);
      assertEquals((await holdfast.ended).code, 76);
      assertMatch(await stderr, /Lost the lease on lock "a"/);
    }
  });
}

Deno.test("holdfast run: after a steal the command is told at once, and killed a little later", async () => {
  await using server = await startRedis();
  await using mine = await lockOn(server);
  const { holdfast, output } = await startCommand(["run", "a", "--", ...OBEDIENT], server.url);
  const ended = await mine.locks.request("a", { steal: true }, () => holdfast.ended);
  assertEquals(ended.code, 76);
  assertMatch(output(), /got TERM/);
  const args = ["run", "--kill-after", "10ms", "--ttl", "10s", "a", "--", ...STUBBORN];
  const stubborn = await startCommand(args, server.url);
  const killed = await mine.locks.request("a", { steal: true }, () => stubborn.holdfast.ended);
  assertEquals(killed.code, 76);
  assert(!isAlive(stubborn.pid));
});

Deno.test("holdfast show: the holder and the waiters, as text and as JSON", async () => {
  await using server = await startRedis();
  const { holdfast } = await startCommand(
    ["run", "--label", "first", "a", "--", ...OBEDIENT],
    server.url,
  );
  const waiter = start(["run", "--label", "second", "a", "--", "true"], server.url);
  const shown = async () => JSON.parse((await finish(["show", "--json", "a"], server.url)).stdout);
  await waitUntil("it waits", async () => (await shown()).waiterCount === 1);
  const { code, stdout } = await finish(["show", "a"], server.url);
  assertEquals(code, 0);
  assertMatch(
    stdout,
    /^held\n {2}holder {2}first, token \d+, \d+\.\d s left\n {2}waiter {2}second.*\n$/,
  );
  holdfast.kill("SIGTERM");
  await holdfast.ended;
  assertEquals((await waiter.ended).code, 0);
  assertEquals((await finish(["show", "a"], server.url)).stdout, "free\n");
});

Deno.test("holdfast list: a line for each lock, as text and as JSON", async () => {
  await using server = await startRedis();
  const { holdfast } = await startCommand(
    ["run", "--label", "first", "a:1", "--", ...OBEDIENT],
    server.url,
  );
  await server.command("SET", "lock:b\n", "foreign");
  const listed = async (...args: string[]) => {
    const { code, stdout, stderr } = await finish(["list", ...args], server.url);
    assertEquals([code, stderr], [0, ""]);
    return stdout;
  };
  assertMatch(await listed("a:"), /^a:1 {2}held by first, token \d+, \d+\.\d s left\n$/);
  assertEquals(await listed("b"), '"b\\n"  held by (no label)\n');
  const { name, holders } = JSON.parse(await listed("--json", "a"));
  assertEquals([name, holders[0].label], ["a:1", "first"]);
  assertEquals(await listed("none"), "");
  const refused = await finish(["list"], `${server.url}?keyPrefix=`);
  assertEquals(refused.code, 78);
  assertMatch(refused.stderr, /keyPrefix/);
  assertEquals((await finish(["list", "a", "b"], server.url)).code, 64);
  holdfast.kill("SIGTERM");
  await holdfast.ended;
});

Deno.test("holdfast run: files have no shared mode, which is 78", async () => {
  await using files = await fileUrl();
  for (const option of [["--shared"], ["--limit", "2"]]) {
    const { code, stderr } = await finish(["run", ...option, "a", "--", "true"], files.url);
    assertEquals(code, 78, stderr);
  }
});

Deno.test("holdfast release: takes a lock from its holder, where that is supported", async () => {
  await using server = await startRedis();
  const { holdfast } = await startCommand(
    ["run", "--label", "x", "a", "--", ...OBEDIENT],
    server.url,
  );
  const steal = (...more: string[]) => finish(["release", ...more, "a"], server.url);
  assertMatch((await steal()).stderr, /say --steal/);
  assertMatch((await steal("--steal")).stderr, /say --yes/);
  assertEquals(await steal("--steal", "--yes"), { code: 0, stdout: "taken from x\n", stderr: "" });
  assertEquals((await holdfast.ended).code, 76);
  assertEquals((await steal("--steal")).stdout, "free\n");
  await using files = await fileUrl();
  const onFiles = await finish(["release", "--steal", "--yes", "a"], files.url);
  assertEquals(onFiles.code, 78);
  assertMatch(onFiles.stderr, /not supported/);
});

const hasNamespaces = spawnSync("unshare", ["-fp", "true"]).status === 0;
Deno.test({
  name: "holdfast run: as the first process of a container it passes TERM on, and ends" +
    (hasNamespaces ? "" : " [skipped: no right to make a namespace]"),
  ignore: !hasNamespaces,
  async fn() {
    await using files = await fileUrl();
    const command = [...scriptCommand(MAIN), "run", "a", "--", ...OBEDIENT];
    const unshare = spawnProcess(["unshare", "-fp", ...command], {
      env: { HOLDFAST_URL: files.url },
      stdout: "pipe",
    });
    let output = "";
    unshare.stdout!.setEncoding("utf8").on("data", (chunk: string) => output += chunk);
    await waitUntil("the command runs", () => output.includes("\n"));
    const children = await readFile(`/proc/${unshare.pid}/task/${unshare.pid}/children`, "utf8");
    process.kill(Number(children.trim()), "SIGTERM");
    assertEquals((await unshare.ended).code, 0);
    assertMatch(output, /\ngot TERM\n$/);
  },
});
