import { assert, assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { bearerTokens } from "../../examples/lock_service.ts";
import { call } from "../../testing/lock_service/lock_service.ts";
import { linesOf } from "../../testing/processes/child.ts";
import { runCommand } from "../../testing/servers/command.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS, KEPT_TTL_MS, RENEWED_TTL_MS } from "../../testing/time.ts";

const EXAMPLES = new URL("../../examples/", import.meta.url);
const SCRIPT = fileURLToPath(new URL("lock_service.sh", EXAMPLES));
const CONFIG = fileURLToPath(new URL("../../deno.json", import.meta.url));
const TOKEN = "secret-of-the-backup";
const TOKENS = { backup: TOKEN, other: "another-secret" };

const curl = (await runCommand(["curl", "--version"], 10_000)).success;
const note = curl ? "" : " [skipped: there is no curl]";

/** Starts the example as a process, on a new Redis server. */
async function open(...args: string[]) {
  await using stack = new AsyncDisposableStack();
  const redis = stack.use(await startRedis());
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "--no-check", "--config", CONFIG],
      ...[fileURLToPath(new URL("lock_service.ts", EXAMPLES)), "--port", "0", ...args],
    ],
    env: { REDIS_URL: redis.url, LOCK_TOKENS: JSON.stringify(TOKENS) },
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const lines = linesOf(child.stdout);
  let isRunning = true;
  const ended = child.status.then(({ code }) => (isRunning = false, code));
  stack.defer(async () => {
    if (isRunning) child.kill("SIGKILL");
    await ended;
    await lines.cancel();
  });
  const url = /^locks at (http:\S+)$/.exec((await lines.next())!)![1]!;
  const owned = stack.move();
  return { url, redis, child, ended, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Starts the script. It needs no process group, as it stops the command that it started. */
function script(
  url: string,
  command: readonly string[],
  env: Record<string, string> = {},
  stdin: "null" | "piped" = "null",
) {
  return new Deno.Command("sh", {
    args: [SCRIPT, "nightly%2Fbackup", ...command],
    env: { LOCK_URL: url, LOCK_TOKEN: TOKEN, LOCK_RENEW_S: "0.1", ...env },
    stdin,
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

const exists = (path: string) => Deno.stat(path).then(() => true, () => false);

async function resultOf(child: Deno.ChildProcess): Promise<{ code: number; text: string }> {
  const { code, stdout, stderr } = await child.output();
  return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

Deno.test({
  name: "examples/lock_service.sh runs one command at a time under examples/lock_service.ts" + note,
  ignore: !curl,
  async fn() {
    await using place = await open();
    const { url } = place;
    const queue = async () =>
      (await call(url, "GET", "/lock/nightly%2Fbackup", { as: TOKEN })).body;
    // The script passes on the exit code of its command, which gets the fencing token.
    const first = await resultOf(script(url, ["sh", "-c", 'echo "token $FENCING_TOKEN"; exit 3']));
    assertEquals(first.code, 3, first.text);
    const token = BigInt(/token (\d+)/.exec(first.text)![1]!);
    assertEquals((await queue()).held, false);
    // The command reads the input of the script.
    const reader = script(url, ["cat"], {}, "piped");
    const input = reader.stdin.getWriter();
    await input.write(new TextEncoder().encode("from the pipe"));
    await input.close();
    const { code: readCode, text: read } = await resultOf(reader);
    assertEquals([readCode, read], [0, "from the pipe"]);
    // The first holder outlasts its TTL, the second waits, the third gives up at once.
    const ttlMs = KEPT_TTL_MS;
    const held = { LOCK_TTL_MS: String(ttlMs) };
    const long = script(url, ["sleep", "60"], held);
    await waitUntil("the command runs", async () => (await queue()).held);
    const third = await resultOf(script(url, ["echo", "no"], { LOCK_WAIT_MS: "0" }));
    assertEquals([third.code, third.text.includes("somebody else")], [75, true], third.text);
    const second = script(url, ["sh", "-c", 'echo "token $FENCING_TOKEN"'], {
      LOCK_WAIT_MS: "30000",
    });
    await waitUntil("it waits", async () => (await queue()).waiterCount === 1);
    const before = BigInt((await queue()).fencingToken);
    const startMs = performance.now();
    await waitUntil("a TTL is over", () => performance.now() - startMs > 1.2 * ttlMs);
    assertEquals((await queue()).waiterCount, 1, "it was renewed, so the second still waits");
    long.kill("SIGTERM"); // the trap gives the lock back
    assertEquals((await resultOf(long)).code, 143);
    const next = await resultOf(second);
    assertEquals(next.code, 0, next.text);
    assert(BigInt(/token (\d+)/.exec(next.text)![1]!) > before && before > token);
    // A lease that is lost stops the command.
    // A `PUT` that loses its lease before it answers takes the lock again: so the command must run.
    const started = await Deno.makeTempFile();
    const lost = script(url, ["sh", "-c", `echo x > ${started}; exec sleep 60`], held);
    await waitUntil("the command runs", async () => (await Deno.stat(started)).size > 0);
    await Deno.remove(started);
    await place.redis.command("DEL", "lock-service:nightly/backup");
    const { code, text } = await resultOf(lost);
    assertEquals([code, text.includes("lost the lock")], [70, true], text);
    // An unknown bearer token is refused.
    const stranger = await resultOf(script(url, ["echo"], { LOCK_TOKEN: "guessed" }));
    assertEquals([stranger.code, stranger.text.includes("401")], [69, true], stranger.text);
    const asked = await fetch(`${url}/lock/k`, { headers: { authorization: "Bearer guessed" } });
    await asked.body?.cancel();
    assertEquals([asked.status, asked.headers.get("www-authenticate")], [401, "Bearer"]);
    place.child.kill("SIGTERM");
    assertEquals(await place.ended, 0);
  },
});

/** Waits until the lease is prolonged; fails if it ends before. */
async function renewed(url: string): Promise<void> {
  let lastMs = Infinity;
  await waitUntil("the lease is renewed", async () => {
    const { body } = await call(url, "GET", "/lock/nightly%2Fbackup", { as: TOKEN });
    assert(body.held, "the lease has ended");
    const remainingMs: number = body.remainingMs;
    const isRenewed = remainingMs > lastMs;
    lastMs = remainingMs;
    return isRenewed;
  });
}

Deno.test({
  name:
    "examples/lock_service.sh renews until all processes of its command have stopped, and when the wall clock was set back" +
    note,
  ignore: !curl,
  async fn() {
    await using place = await open();
    const { url } = place;
    const dir = await Deno.makeTempDir();
    await using stack = new AsyncDisposableStack();
    stack.defer(() => Deno.remove(dir, { recursive: true }));
    const date = `#!/bin/sh\necho $(($(/bin/date +%s) - $(cat ${dir}/back)))\n`;
    await Deno.writeTextFile(`${dir}/date`, date, { mode: 0o755 });
    const { output } = await runCommand(["sh", "-c", "command -v curl"], CONDITION_BOUND_MS);
    const noting = `#!/bin/sh\necho "$*" >> ${dir}/arguments\nexec ${output.trim()} "$@"\n`;
    await Deno.writeTextFile(`${dir}/curl`, noting, { mode: 0o755 });
    await Deno.writeTextFile(`${dir}/back`, "0");
    const env = { PATH: `${dir}:${Deno.env.get("PATH")}`, LOCK_TTL_MS: String(RENEWED_TTL_MS) };
    const runs = `[ -e ${dir}/started ] && [ ! -e ${dir}/end ]`; // no longer when the folder is gone
    const slow = `trap "while ${runs}; do sleep 0.05; done; exit" TERM
      echo x > ${dir}/started; while ${runs}; do sleep 0.05; done`;
    const { success: hasSetsid } = await runCommand(["setsid", "--version"], CONDITION_BOUND_MS);
    const command = hasSetsid ? `(${slow}); :` : slow; // the outer shell ends at TERM
    const child = script(url, ["sh", "-c", command], env);
    await waitUntil("the command runs", () => exists(`${dir}/started`));
    await Deno.writeTextFile(`${dir}/back`, "100");
    await renewed(url);
    child.kill("SIGTERM");
    await renewed(url);
    await Deno.writeTextFile(`${dir}/end`, "");
    assertEquals((await resultOf(child)).code, 143);
    const { body } = await call(url, "GET", "/lock/nightly%2Fbackup", { as: TOKEN });
    assertEquals(body.held, false);
    // All users of the machine can read the arguments.
    const noted = await Deno.readTextFile(`${dir}/arguments`);
    assertEquals([noted.includes("-X DELETE"), noted.includes(TOKEN)], [true, false]);
  },
});

Deno.test({
  name: "examples/lock_service.sh fails when the lock was lost right before its command ended" +
    note,
  ignore: !curl,
  async fn() {
    await using place = await open();
    const dir = await Deno.makeTempDir();
    await using stack = new AsyncDisposableStack();
    stack.defer(() => Deno.remove(dir, { recursive: true }));
    const work = `echo x > ${dir}/started; while [ ! -e ${dir}/end ]; do sleep 0.05; done`;
    const child = script(place.url, ["sh", "-c", work]); // with 15 s, no renewal is due
    await waitUntil("the command runs", () => exists(`${dir}/started`));
    await place.redis.command("DEL", "lock-service:nightly/backup");
    await Deno.writeTextFile(`${dir}/end`, "");
    const { code, text } = await resultOf(child);
    assertEquals([code, text.includes("lost the lock")], [70, true], text);
  },
});

Deno.test("bearerTokens() finds the principal of a token, and none without a token or with a wrong one", () => {
  const authorize = bearerTokens({ a: "one", b: "two" });
  const ask = (authorization?: string) => authorize({ headers: { authorization } });
  assertEquals([ask("Bearer one"), ask("bearer two")], ["a", "b"]);
  const wrong = ["Bearer three", "Bearer on", "Bearer onee"];
  for (const none of [...wrong, undefined, "", "Basic one", "Bearer", "Bearer one two"]) {
    assertEquals(ask(none), undefined);
  }
});
