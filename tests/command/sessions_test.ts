/**
 * `docs/sessions.md` shows what a terminal shows.
 */
import { assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { recordSessions, withoutNumbers } from "../../tools/sessions/sessions.ts";

const PAGE = new URL("../../docs/sessions.md", import.meta.url);
const ignore = spawnSync("script", ["--version"]).status !== 0;
const skip = ignore ? " [skipped: there is no script(1)]" : "";

Deno.test(
  `docs/sessions.md is what a session of each command shows${skip}`,
  { ignore },
  async () => {
    const page = await readFile(PAGE, "utf8");
    assertEquals(withoutNumbers(page), withoutNumbers(await recordSessions()));
  },
);
