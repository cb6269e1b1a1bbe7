/**
 * Processes that take locks and delete their files at the same time, while some are killed.
 */
import { assert, assertEquals } from "@std/assert";
import { race } from "../../testing/file/race.ts";
import { temporary } from "../../testing/file/lock_directories.ts";
import { say } from "../../testing/processes/figures.ts";
import { seedOf } from "../../testing/processes/random.ts";

const DURATION_MS = Deno.env.get("HOLDFAST_SOAK") ? 300_000 : 3_000;
const isLinux = Deno.build.os === "linux";

Deno.test({
  name:
    `FileLock excludes others, and its tokens grow, while files are deleted and processes killed${
      isLinux ? "" : " (skipped: this needs /proc)"
    }`,
  ignore: !isLinux,
  async fn() {
    await using temp = await temporary();
    const seed = seedOf();
    const options = { processes: 4, durationMs: DURATION_MS, killEveryMs: 500 };
    const { grants, kills, violations } = await race({ base: temp.dir, seed, ...options });
    say(`seed ${seed}: ${grants} grants, ${kills} kills`);
    assertEquals(violations, []);
    assert(grants > 50 && kills > 3, "hardly anything happened");
  },
});
