/**
 * `holdfast release --steal` asks a person, in a terminal, who may think for long.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { MAIN } from "../../testing/command/holdfast.ts";
import { lockOn } from "../../testing/command/redis_locks.ts";
import { scriptCommand } from "../../testing/runtime/processes.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { LONG_TTL_MS } from "../../testing/time.ts";
import { openTerminal } from "../../tools/sessions/terminal.ts";

const RELEASE = [...scriptCommand(MAIN), "release", "--steal", "a"].join(" ");
const ignore = spawnSync("script", ["--version"]).status !== 0;
const skip = ignore ? " [skipped: there is no script(1)]" : "";

Deno.test(
  `holdfast release: takes the lock from nobody but the holders that were agreed to${skip}`,
  { ignore },
  async () => {
    await using server = await startRedis();
    const env = { HOLDFAST_URL: server.url, PATH: process.env.PATH! };
    await using terminal = await openTerminal(process.cwd(), env);
    await using opened = await lockOn(server);
    const { locks } = opened;
    // Each "yes" is spelled in its own way, for the terminal shows the earlier ones, too.
    const hold = (label: string, options = {}) =>
      locks.acquire("a", { label, ttlMs: LONG_TTL_MS, ...options });

    const first = await hold("host-a");
    await terminal.begin(RELEASE, "from host-a? [y/N] ");
    await first.release();
    const second = await hold("host-b");
    await terminal.begin("Yes", "from host-b? [y/N] ");
    assertEquals(second.isHeld, true);
    await second.release();
    const third = await hold("host-b"); // the same label, but another lease
    await terminal.begin("YES", "from host-b? [y/N] ");
    await third.renew(); // it is still held
    await third.release();
    await terminal.type("n");
    assertEquals((await terminal.end()).includes("taken"), false);

    await hold("reader-1", { mode: "shared" });
    const reader = await hold("reader-2", { mode: "shared" });
    await terminal.begin(RELEASE, "and 1 more? [y/N] ");
    await reader.release();
    await terminal.begin("yes", "from reader-1? [y/N] ");
    await terminal.type("y");
    assertStringIncludes(await terminal.end(), "taken from reader-1\n");

    const last = await hold("host-c");
    await terminal.begin(RELEASE, "from host-c? [y/N] ");
    await last.release();
    await terminal.type("y");
    assertStringIncludes(await terminal.end(), "free\n");
  },
);
