/**
 * `deno task sessions`: records a session of each command of `holdfast` in a terminal, and writes
 * `docs/sessions.md`. Needs `script` of util-linux, and Redis.
 *
 * @module
 */
import { recordSessions } from "./sessions.ts";

const PAGE = new URL("../../docs/sessions.md", import.meta.url);

if (import.meta.main) await Deno.writeTextFile(PAGE, await recordSessions());
