/**
 * `holdfast run` on files: if it is killed by force, its command keeps the lock until the last of its
 * processes has ended.
 */
import { assertEquals, assertMatch } from "@std/assert";
import process from "node:process";
import { fileURLToPath } from "node:url";
import {
  fileUrl,
  finishHoldfast,
  isGone,
  MAIN,
  startCommand,
  STUBBORN,
} from "../../testing/command/holdfast.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { changesReported, withoutSlowLooks } from "../../testing/file/watching.ts";
import { openLock } from "../../open/mod.ts";
import { scriptCommand } from "../../testing/runtime/processes.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

const skip = process.platform === "linux" ? "" : " [skipped: Linux only]";
const ignore = skip !== "";

Deno.test(
  `holdfast run: killed by force, its command keeps a file lock${skip}`,
  { ignore },
  async () => {
    await using files = await fileUrl();
    await using locks = await openLock(files.url);
    const script = "(trap '' TERM; while :; do sleep 0.1; done) & echo $!; wait";
    for (const command of [STUBBORN, ["sh", "-c", script]]) {
      const args = ["run", "--label", "killed", "a", "--", ...command];
      const { holdfast, pid } = await startCommand(args, files.url);
      const next = locks.acquire("a");
      holdfast.kill("SIGKILL");
      await holdfast.ended;
      const busy = await finishHoldfast(["run", "--no-wait", "a", "--", "true"], files.url);
      assertEquals(busy.code, 75);
      const { stdout } = await finishHoldfast(["show", "a"], files.url);
      assertMatch(stdout, /holder {2}killed, token/);
      process.kill(pid, "SIGKILL");
      await waitUntil("it has ended", () => isGone(pid));
      await using _lease = await next; // its watch reports the end
    }
  },
);

Deno.test("holdfast run: what a command leaves behind on files goes on without the lock", async () => {
  await using files = await fileUrl();
  const script = "sleep 1000 > /dev/null 2>&1 & echo $!";
  const { holdfast, pid } = await startCommand(["run", "a", "--", "sh", "-c", script], files.url);
  assertEquals((await holdfast.ended).code, 0);
  await using locks = await openLock(files.url);
  await using lease = await locks.tryAcquire("a");
  assertEquals(lease?.isHeld, true);
  process.kill(pid, "SIGKILL");
});

Deno.test(
  `holdfast run: a waiter learns of the end although a daemon has the kept file open${skip}`,
  { ignore },
  async () => {
    await using files = await fileUrl();
    const url = `${files.url}?keepFiles=true`;
    await using locks = await openLock(url);
    using _no = withoutSlowLooks();
    const script = "sleep 1000 > /dev/null 2>&1 & echo $!; while [ -e $0 ]; do sleep 0.05; done";
    const gate = `${fileURLToPath(files.url)}/gate`;
    await Deno.writeTextFile(gate, "");
    const { holdfast, pid } = await startCommand(["run", "a", "--", "sh", "-c", script, gate], url);
    try {
      let isWaiting = false;
      const next = locks.acquire("a", { onWait: () => void (isWaiting = true) });
      await waitUntil("another process waits", () => isWaiting);
      await changesReported(fileURLToPath(files.url));
      await Deno.remove(gate);
      assertEquals((await holdfast.ended).code, 0);
      await using _lease = await within("the waiter is told", next);
      assertEquals(isGone(pid), false);
    } finally {
      process.kill(pid, "SIGKILL");
    }
  },
);

Deno.test(
  `holdfast run: within another one, its command keeps the lock of its own directory${skip}`,
  { ignore },
  async () => {
    await using outer = await fileUrl();
    await using inner = await fileUrl();
    const nested = [...scriptCommand(MAIN), "run", "--at", inner.url, "a", "--"];
    const command = [...nested, "readlink", "/proc/self/fd/3"];
    const { stdout } = await finishHoldfast(["run", "a", "--", ...command], outer.url);
    assertMatch(stdout, new RegExp(`^${fileURLToPath(inner.url)}/`));
  },
);
