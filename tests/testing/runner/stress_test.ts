import { assert, assertEquals } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { startStress } from "../../../testing/runner/stress.ts";
import { runCommand } from "../../../testing/servers/command.ts";
import { exists } from "../../../testing/servers/process_checks.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";
import { CONDITION_BOUND_MS } from "../../../testing/time.ts";

const isLinux = Deno.build.os === "linux";
const note = isLinux ? "" : " (skipped: this needs /proc)";

/** The commands of the children of this process. */
function children(): string[] {
  return readdirSync("/proc").flatMap((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const parent = stat.slice(stat.lastIndexOf(")")).split(" ")[2];
      if (Number(parent) !== Deno.pid) return [];
      return [readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ")];
    } catch {
      return []; // It is not a process, or has just ended.
    }
  });
}

for (
  const [kind, command, count] of [["cpu", "while :;", 2], ["disk", "disk_writer", 1]] as const
) {
  Deno.test({
    name: `startStress() starts what "${kind}" needs, and leaves no process${note}`,
    ignore: !isLinux,
    async fn() {
      const before = children();
      const stressors = () => children().filter((line) => line.includes(command));
      const stress = await startStress(kind);
      await waitUntil("it runs", () => stressors().length === count, CONDITION_BOUND_MS);
      await stress[Symbol.asyncDispose]();
      assertEquals(children(), before);
    },
  });
}

const hasTaskset = (await runCommand(["taskset", "--version"], CONDITION_BOUND_MS)).success;

Deno.test({
  name: `startStress() keeps children on one core for "one-core"` +
    (hasTaskset ? "" : " (skipped: this needs taskset)"),
  ignore: !hasTaskset,
  async fn() {
    const count = async () => Number((await runCommand(["nproc"], CONDITION_BOUND_MS)).output);
    const before = await count();
    {
      await using _stress = await startStress("one-core");
      assertEquals(await count(), 1);
    }
    assertEquals(await count(), before);
  },
});

Deno.test('startStress() makes fresh caches for "cold", and removes them', async () => {
  const names = ["HOME", "XDG_CACHE_HOME", "DENO_DIR", "npm_config_cache", "HOLDFAST_NPM_FOLDER"];
  const values = () => names.map((name) => Deno.env.get(name));
  const before = values();
  let home: string;
  {
    await using _stress = await startStress("cold");
    home = Deno.env.get("HOME")!;
    assert(await exists(home));
    for (const [i, value] of values().entries()) assert(value !== before[i], names[i]);
  }
  assertEquals(values(), before);
  assert(!await exists(home));
});
