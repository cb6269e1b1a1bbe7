/**
 * `holdfast run`: the command ends as it does, gets signals, and is gone before anybody else has the lock.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { writeFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import {
  fileUrl,
  finishHoldfast,
  isGone,
  OBEDIENT,
  startCommand,
  startHoldfast,
  STUBBORN,
} from "../../testing/command/holdfast.ts";
import { lockOn } from "../../testing/command/redis_locks.ts";
import { untilShown } from "../../testing/processes/stalls.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { KEPT_TTL_MS, LONG_TTL_MS, scaled } from "../../testing/time.ts";

Deno.test("holdfast run: exits as its command, which gets the name and the token", async () => {
  await using files = await fileUrl();
  const script = 'echo "$HOLDFAST_NAME $HOLDFAST_TOKEN"; exit 7';
  const { code, stdout } = await finishHoldfast(
    ["run", "nightly", "--", "sh", "-c", script],
    files.url,
  );
  assertEquals(code, 7);
  assertMatch(stdout, /^nightly [1-9]\d+\n$/);
  const killed = await finishHoldfast(["run", "a", "--", "sh", "-c", "kill -KILL $$"], files.url);
  assertEquals(killed.code, 137);
  const missing = await finishHoldfast(["run", "a", "--", "no-such-program"], files.url);
  assertEquals(missing.code, 127);
  assertMatch(missing.stderr, /^holdfast: cannot run no-such-program \(ENOENT\): is it installed/);
  const own = await finishHoldfast(["run", "a", "--", "sh", "-c", "exit 126"], files.url);
  assertEquals([own.code, own.stderr], [126, ""]);
});

Deno.test("holdfast run: a busy lock is 75 or what -E says, a service out of reach 69", async () => {
  await using files = await fileUrl();
  const { holdfast } = await startCommand(["run", "a", "--", ...OBEDIENT], files.url);
  const busy = await finishHoldfast(["run", "--no-wait", "a", "--", "true"], files.url);
  assertEquals([busy.code, busy.stderr], [75, 'holdfast: "a" is busy\n']);
  const other = await finishHoldfast(
    ["run", "--wait", "1ms", "-E", "9", "a", "--", "true"],
    files.url,
  );
  assertEquals(other.code, 9);
  holdfast.kill("SIGTERM");
  assertEquals((await holdfast.ended).code, 0);
  const outage = await finishHoldfast(
    ["run", "a", "--", "true"],
    "redis://:hunter2@127.0.0.1:1?unavailableAfterMs=50&disposeTimeoutMs=50",
  );
  assertEquals(outage.code, 69);
  assertMatch(outage.stderr, /ECONNREFUSED/);
  assert(!outage.stderr.includes("hunter2"));
});

Deno.test("holdfast run: the lock is held until all processes of a command that was told to end are gone", async () => {
  await using server = await startRedis();
  await using mine = await lockOn(server);
  // The leader ends by the signal; its child ignores it.
  const script = "(trap '' TERM; while :; do sleep 0.1; done) & echo $!; wait";
  for (const told of ["by a signal", "by a loss"]) {
    const args = ["run", "--ttl", `${KEPT_TTL_MS}ms`, "--kill-after", "300ms", "a", "--"];
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

Deno.test("holdfast run: the lock is held until a process that was killed is gone, which takes a moment", async () => {
  await using server = await startRedis();
  await using mine = await lockOn(server);
  // Its end takes a moment, as the system frees its memory. A shell, as that has a single thread.
  const large = `x=$(head -c 150000000 /dev/zero | tr "\\0" x); echo $$; while :; do sleep 1; done`;
  const command = ["sh", "-c", `(trap '' TERM; exec sh -c "$0") & wait`, large];
  const args = ["run", "--kill-after", `${scaled(1_000)}ms`, "a", "--", ...command];
  const { holdfast, pid } = await startCommand(args, server.url);
  const next = mine.locks.acquire("a");
  await waitUntil("the next one waits", async () => {
    return (await mine.locks.query("a")).waiterCount === 1;
  });
  holdfast.kill("SIGTERM");
  await using _lease = await next;
  assert(isGone(pid), "the process still runs");
  await holdfast.ended;
});

Deno.test("holdfast run: a loss that only the release finds is 76 too, whatever the command's code", async () => {
  await using server = await startRedis();
  await using mine = await lockOn(server);
  const until = (file: string) => `echo $$; while [ ! -e ${file} ]; do sleep 0.05; done; exit 7`;
  await using files = await fileUrl();
  const dir = fileURLToPath(files.url);
  const start = (name: string) => {
    const command = ["sh", "-c", until(`${dir}/${name}`)];
    return startCommand(["run", "--ttl", `${LONG_TTL_MS}ms`, name, "--", ...command], server.url);
  };
  for (const [name, why] of [["deleted", "it expired"], ["stolen", "it was stolen"]] as const) {
    const { holdfast } = await start(name);
    const stderr = text(holdfast.stderr!);
    // As a client does that knows nothing of this library: nobody is notified.
    await server.command("DEL", `lock:${name}`);
    if (name === "stolen") await server.command("SET", `lock:${name}`, "foreign");
    await writeFile(`${dir}/${name}`, "");
    assertEquals((await holdfast.ended).code, 76);
    assertStringIncludes(await stderr, `Lost the lease on lock "${name}" (${why}`);
  }
  await using _lease = await mine.locks.acquire("deleted");
});

Deno.test("holdfast run: a file lock that was deleted meanwhile is 76, too", async () => {
  await using files = await fileUrl();
  const script = `rm ${fileURLToPath(files.url)}/*; exit 0`;
  const { code, stderr } = await finishHoldfast(["run", "a", "--", "sh", "-c", script], files.url);
  assertEquals(code, 76);
  assertMatch(stderr, /^holdfast: Lost the lease on lock "a" \(it was stolen/);
});

Deno.test("holdfast run: the label may stand in the URL", async () => {
  await using files = await fileUrl();
  const { code, stderr } = await finishHoldfast(
    ["run", "a", "--", "true"],
    `${files.url}?label=billing`,
  );
  assertEquals([code, stderr], [0, ""]);
});

Deno.test("holdfast run: a signal ends its wait, and nothing stays in the queue", async () => {
  await using server = await startRedis();
  await using mine = await lockOn(server);
  await using _lease = await mine.locks.acquire("a");
  const waiter = startHoldfast(["run", "a", "--", "true"], server.url);
  const waiters = async () => (await mine.locks.query("a")).waiterCount;
  await waitUntil("it waits", async () => await waiters() === 1);
  waiter.kill("SIGTERM");
  assertEquals((await waiter.ended).code, 143);
  assertEquals(await waiters(), 0);
});

Deno.test("holdfast run: a lease that is renewed never ends the command, however short it is", async () => {
  await using server = await startRedis();
  // If it were longer, a renewal would be due before the 2 s begin that a command has by default after TERM.
  const ttlMs = Math.min(scaled(2_800), 2_950);
  const ttl = `${ttlMs}ms`;
  const sleeps = ["sh", "-c", `sleep ${1.2 * ttlMs / 1_000}`];
  // A renewal that is late by half a second ends the command.
  await untilShown(async () => {
    const { code } = await finishHoldfast(
      ["run", "--ttl", ttl, "a", "--", ...sleeps],
      server.url,
    );
    return code === 0 ? "shown" : "stalled";
  });
  const tooLong = ["run", "--ttl", ttl, "--kill-after", ttl, "a", "--", ...sleeps];
  const { code, stderr } = await finishHoldfast(tooLong, server.url);
  assertEquals(code, 64);
  assertMatch(stderr, /--kill-after must be at most half of the lease, which lasts \d+ ms/);
});

Deno.test("holdfast run: after a steal the command is told at once, and killed a little later", async () => {
  await using server = await startRedis();
  await using mine = await lockOn(server);
  const ttl = `${KEPT_TTL_MS}ms`;
  const { holdfast, output, closed } = await startCommand(
    ["run", "--ttl", ttl, "a", "--", ...OBEDIENT],
    server.url,
  );
  const ended = await mine.locks.request("a", { steal: true }, () => holdfast.ended);
  assertEquals(ended.code, 76);
  await closed;
  assertMatch(output(), /got TERM/);
  const args = ["run", "--kill-after", "10ms", "--ttl", ttl, "a", "--", ...STUBBORN];
  const stubborn = await startCommand(args, server.url);
  const killed = await mine.locks.request("a", { steal: true }, () => stubborn.holdfast.ended);
  assertEquals(killed.code, 76);
  assert(isGone(stubborn.pid));
});

Deno.test("holdfast run: --kill-after may be longer than a timer of the runtime", async () => {
  await using files = await fileUrl();
  const slow = "trap 'sleep 1; echo got TERM; exit 0' TERM; echo $$; while :; do sleep 0.05; done";
  const args = ["run", "--kill-after", "1000h", "a", "--", "sh", "-c", slow];
  const { holdfast, output, closed } = await startCommand(args, files.url);
  for await (const { name } of Deno.readDir(fileURLToPath(files.url))) {
    if (name !== "holdfast.tokens") await Deno.remove(`${fileURLToPath(files.url)}/${name}`);
  }
  await closed;
  assertMatch(output(), /got TERM/);
  assertEquals((await holdfast.ended).code, 76);
});

Deno.test("holdfast show: the holder and the waiters, as text and as JSON", async () => {
  await using server = await startRedis();
  const { holdfast } = await startCommand(
    ["run", "--label", "first", "a", "--", ...OBEDIENT],
    server.url,
  );
  const waiter = startHoldfast(["run", "--label", "second", "a", "--", "true"], server.url);
  const shown = async () =>
    JSON.parse((await finishHoldfast(["show", "--json", "a"], server.url)).stdout);
  await waitUntil("it waits", async () => (await shown()).waiterCount === 1);
  const { code, stdout } = await finishHoldfast(["show", "a"], server.url);
  assertEquals(code, 0);
  assertMatch(
    stdout,
    /^held\n {2}holder {2}first, token \d+, \d+\.\d s left\n {2}waiter {2}second.*\n$/,
  );
  holdfast.kill("SIGTERM");
  await holdfast.ended;
  assertEquals((await waiter.ended).code, 0);
  assertEquals((await finishHoldfast(["show", "a"], server.url)).stdout, "free\n");
});

Deno.test("holdfast list: a line for each lock, as text and as JSON", async () => {
  await using server = await startRedis();
  const { holdfast } = await startCommand(
    ["run", "--label", "first", "a:1", "--", ...OBEDIENT],
    server.url,
  );
  await server.command("SET", "lock:b\n", "foreign");
  const listed = async (...args: string[]) => {
    const { code, stdout, stderr } = await finishHoldfast(["list", ...args], server.url);
    assertEquals([code, stderr], [0, ""]);
    return stdout;
  };
  assertMatch(await listed("a:"), /^a:1 {2}held by first, token \d+, \d+\.\d s left\n$/);
  assertEquals(await listed("b"), '"b\\n"  held by (no label)\n');
  const { name, holders } = JSON.parse(await listed("--json", "a"));
  assertEquals([name, holders[0].label], ["a:1", "first"]);
  await server.command("SET", "lock:c", `\x1b[2K\x9bx/${crypto.randomUUID()}#0123456789abcdef`);
  assertEquals(await listed("c"), 'c  held by "\\u001b[2K\\u009bx"\n');
  assertEquals(await listed("none"), "");
  const refused = await finishHoldfast(["list"], `${server.url}?keyPrefix=`);
  assertEquals(refused.code, 78);
  assertMatch(refused.stderr, /keyPrefix/);
  assertEquals((await finishHoldfast(["list", "a", "b"], server.url)).code, 64);
  holdfast.kill("SIGTERM");
  await holdfast.ended;
});

Deno.test("holdfast run: files have no shared mode, which is 78", async () => {
  await using files = await fileUrl();
  for (const option of [["--shared"], ["--limit", "2"]]) {
    const { code, stderr } = await finishHoldfast(["run", ...option, "a", "--", "true"], files.url);
    assertEquals(code, 78, stderr);
  }
});

Deno.test("holdfast release: takes a lock from its holder, where that is supported", async () => {
  await using server = await startRedis();
  const { holdfast } = await startCommand(
    ["run", "--label", "x", "a", "--", ...OBEDIENT],
    server.url,
  );
  const steal = (...more: string[]) => finishHoldfast(["release", ...more, "a"], server.url);
  assertMatch((await steal()).stderr, /say --steal/);
  assertMatch((await steal("--steal")).stderr, /say --yes/);
  assertEquals(await steal("--steal", "--yes"), { code: 0, stdout: "taken from x\n", stderr: "" });
  assertEquals((await holdfast.ended).code, 76);
  assertEquals((await steal("--steal")).stdout, "free\n");
  await using files = await fileUrl();
  const onFiles = await finishHoldfast(["release", "--steal", "--yes", "a"], files.url);
  assertEquals(onFiles.code, 78);
  assertMatch(onFiles.stderr, /not supported/);
});
