/**
 * `holdfast run` passes signals on, as many as it gets, and as the first process of a container, too.
 */
import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import {
  fileUrl,
  LISTENING,
  MAIN,
  OBEDIENT,
  printedPid,
  startCommand,
} from "../../testing/command/holdfast.ts";
import { lockOn } from "../../testing/command/redis_locks.ts";
import { say } from "../../testing/processes/figures.ts";
import { scriptCommand, type Signal, spawnProcess } from "../../testing/runtime/processes.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { KEPT_TTL_MS } from "../../testing/time.ts";

const IS_SOAK = process.env.HOLDFAST_SOAK === "1";
const ROUNDS = IS_SOAK ? 100 : 3;
const SIGNALS: readonly Signal[] = [
  ...["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"] as const,
  ...["SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH"] as const,
];

Deno.test("holdfast run: passes each signal on, each time", async () => {
  await using files = await fileUrl();
  const { holdfast, pid, output } = await startCommand(["run", "a", "--", ...LISTENING], files.url);
  const count = (signal: Signal) => output().split("\n").filter((line) => line === signal.slice(3));
  for (const signal of SIGNALS) {
    for (let sent = 1; sent <= ROUNDS; sent++) {
      holdfast.kill(signal);
      await waitUntil(`${signal} has come`, () => count(signal).length === sent);
    }
  }
  process.kill(-pid, "SIGKILL");
  assertEquals((await holdfast.ended).code, 128 + 9);
  const got = SIGNALS.map((signal) => `${count(signal).length} × ${signal.slice(3)}`);
  if (IS_SOAK) say(`holdfast run has passed on ${got.join(", ")}`);
});

Deno.test("holdfast run: a command may ask for a signal as soon as it runs", async () => {
  await using files = await fileUrl();
  // Its parent is holdfast: a signal that came before the listeners would end that, and not the command.
  const script = 'trap "exit 7" USR2; kill -USR2 $PPID; while :; do sleep 0.05; done';
  const { holdfast } = await startCommand(
    ["run", "a", "--", "sh", "-c", `echo $$; ${script}`],
    files.url,
  );
  assertEquals((await holdfast.ended).code, 7);
});

Deno.test("holdfast run: Ctrl-Z does not stop it, for its command would go on without the lock", async () => {
  await using server = await startRedis();
  await using mine = await lockOn(server);
  const args = ["run", "--ttl", `${KEPT_TTL_MS}ms`, "a", "--", ...OBEDIENT];
  const { holdfast, output, closed } = await startCommand(args, server.url);
  let stderr = "";
  holdfast.stderr!.setEncoding("utf8").on("data", (chunk: string) => stderr += chunk);
  const deadlineMs = async () => performance.now() + Number(await server.command("PTTL", "lock:a"));
  const firstMs = await deadlineMs();
  for (const count of [1, 2]) {
    holdfast.kill("SIGTSTP");
    await waitUntil("it says so", () => stderr.split("Ctrl-Z is ignored").length > count);
  }
  await waitUntil("it renews", async () => await deadlineMs() > firstMs + KEPT_TTL_MS / 4);
  assertEquals(await mine.locks.tryAcquire("a"), null);
  holdfast.kill("SIGTERM");
  assertEquals((await holdfast.ended).code, 0);
  await closed;
  assert(output().endsWith("\ngot TERM\n"), output());
});

const hasNamespaces = spawnSync("unshare", ["-fp", "--mount-proc", "true"]).status === 0;

/** Runs a command under `holdfast run` as the first process of a namespace. */
async function startContainer(url: string, options: string[], ...command: string[]) {
  const run = [...scriptCommand(MAIN), "run", ...options, "a", "--", ...command];
  const unshare = spawnProcess(["unshare", "-fp", "--mount-proc", ...run], {
    env: { HOLDFAST_URL: url },
    stdout: "pipe",
  });
  const started = await printedPid(unshare);
  const first = readFileSync(`/proc/${unshare.pid}/task/${unshare.pid}/children`, "utf8");
  return { ...started, unshare, first: Number(first) };
}

/** The children of a process that have ended, and that it has not asked for. */
function zombiesOf(pid: number): number {
  const stats = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map((id) => {
    try {
      return readFileSync(`/proc/${id}/stat`, "utf8");
    } catch {
      return ""; // it has ended meanwhile
    }
  });
  return stats.filter((stat) => stat.includes(`) Z ${pid} `)).length;
}

function inContainer(what: string, fn: () => Promise<void>): void {
  const skip = hasNamespaces ? "" : " [skipped: no right to make a namespace]";
  const name = `holdfast run: as the first process of a container ${what}${skip}`;
  Deno.test({ name, ignore: !hasNamespaces, fn });
}

inContainer("it passes TERM on, and ends", async () => {
  await using files = await fileUrl();
  const { unshare, output, closed, first } = await startContainer(files.url, [], ...OBEDIENT);
  process.kill(first, "SIGTERM");
  assertEquals((await unshare.ended).code, 0);
  await closed;
  assert(output().endsWith("\ngot TERM\n"), output());
});

inContainer("it keeps orphans as zombies, and ends with them", async () => {
  await using files = await fileUrl();
  // Each subshell leaves a child behind, whose next parent is the first process.
  const script = "for i in 1 2 3 4 5; do (true &) ; done; (sleep 1000 &); " + OBEDIENT[2];
  const options = ["--kill-after", "200ms"];
  const { unshare, first } = await startContainer(files.url, options, "sh", "-c", script);
  await waitUntil("the orphans have ended", () => zombiesOf(first) === 5);
  process.kill(first, "SIGTERM");
  assertEquals((await unshare.ended).code, 0);
  await waitUntil("none is left", () => zombiesOf(first) === 0);
});
